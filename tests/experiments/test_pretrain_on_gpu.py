"""The recipe that pre-trains several models in one loop on JAX: its rows and masks, and a whole run."""

import json

import numpy as np
import pytest
from helpers.paths import ROOT
from helpers.run_python import BLOCK_TENSORFLOW, run_python
from helpers.run_recipe import as_flags, read_json, run_recipe
from helpers.slow_but import slow_but
from helpers.tiny_corpus import VOCABULARY, make_documents, make_tokenizer, write_lines

import kbert
from kbert.corpus.records import Records
from kbert.pretraining.masking import NextTokens, TokenMasking
from kbert.pretraining.pairs import sentence_pairs

pytestmark = pytest.mark.parity
RECIPES = ROOT / "recipes"
CLS, SEP, MASK = (VOCABULARY.index(token) for token in ("[CLS]", "[SEP]", "[MASK]"))
LENGTH = 32


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Records, and the rows that the recipe writes of them: with next sentences and without."""
    path = tmp_path_factory.mktemp("gpu")
    write_lines(path / "text.txt", make_documents(120))
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    more = {"held_out": 0.1, "format": "lines", "shard_tokens": 2000}
    kbert.pretraining.prepare_records(path / "text.txt", path / "vocab.txt", path / "records", **more)
    for name, options in (("rows", ()), ("single", ("--no-next-sentence",))):
        run_recipe("gpu_rows", path / "records", *as_flags(output=path / name, lengths=[LENGTH, 48]), *options)
    return path


@pytest.mark.parametrize("name", ["rows", "single"])
def test_rows_are_the_pairs_of_the_records(written, name):
    records, next_sentence = Records(written / "records"), name == "rows"
    expected = []
    for epoch in range(2):
        for number in range(len(records.training)):
            pool = records.pool(number)
            pairs = sentence_pairs(pool, 0, epoch, LENGTH - (3 if next_sentence else 2), next_sentence=next_sentence)
            tokens, (a, a_length, b, b_length, is_random) = pool.token_ids.numpy(), (x.numpy() for x in pairs[:5])
            for row in range(len(a)):
                first, second = tokens[a[row] :][: a_length[row]], tokens[b[row] :][: b_length[row]]
                expected.append((first.tolist(), second.tolist(), int(is_random[row])))
    assert len(records.training) > 1
    tokens, table = np.load(written / name / "train-tokens.npy"), np.load(written / name / f"train-{LENGTH}.npy")
    found = [
        (tokens[a : a + a_length].tolist(), tokens[b : b + b_length].tolist(), int(is_random))
        for a, a_length, b, b_length, is_random in table.T
    ]
    assert sorted(found) == sorted(expected) and found != expected  # shuffled


@pytest.mark.parametrize("name", ["rows", "single"])
def test_the_layout_of_rows(written, name, jax, monkeypatch):
    monkeypatch.syspath_prepend(RECIPES)
    from experiments.jax_loop import lay_out

    tokens, table = np.load(written / name / "train-tokens.npy"), np.load(written / name / f"train-{LENGTH}.npy")
    numbers = jax.numpy.asarray(tokens), jax.numpy.asarray(table)
    token_ids, segments, padding = map(np.asarray, lay_out(*numbers, LENGTH, name == "rows", CLS, SEP))
    for row, (a, a_length, b, b_length, _) in enumerate(table.T):
        first = [CLS, *tokens[a : a + a_length], SEP]
        second = [*tokens[b : b + b_length], SEP] if name == "rows" else []
        rest = LENGTH - len(first) - len(second)
        assert token_ids[row].tolist() == [*first, *second, *[0] * rest]
        assert segments[row].tolist() == [0] * len(first) + [1] * len(second) + [0] * rest
        assert padding[row].tolist() == [True] * (LENGTH - rest) + [False] * rest


def test_masks(written, jax, monkeypatch):
    monkeypatch.syspath_prepend(RECIPES)
    from experiments.jax_loop import lay_out, mask_tokens

    tokens, table = np.load(written / "rows" / "train-tokens.npy"), np.load(written / "rows" / f"train-{LENGTH}.npy")
    before, _, padding = lay_out(jax.numpy.asarray(tokens), jax.numpy.asarray(table), LENGTH, True, CLS, SEP)
    is_candidate, lengths = padding & (before != CLS) & (before != SEP), padding.sum(1)
    own = [np.asarray(values) for values in (before, is_candidate, lengths)]  # a row of JAX's takes a millisecond
    counts = np.zeros(3)
    for seed in range(20):
        key = jax.random.PRNGKey(seed)
        found = mask_tokens(key, before, is_candidate, lengths, 4, (0.7, 0.2), MASK, len(VOCABULARY))
        after, positions, labels, weights = map(np.asarray, found)
        for row, (tokens, candidates, length) in enumerate(zip(*own, strict=True)):
            number = min(4, max(1, round(int(length) * 0.15)), int(candidates.sum()))
            chosen = positions[row, :number]
            assert weights[row].tolist() == [1.0] * number + [0.0] * (4 - number) and (np.diff(chosen) > 0).all()
            assert candidates[chosen].all() and labels[row, :number].tolist() == tokens[chosen].tolist()
            assert not positions[row, number:].any() and not labels[row, number:].any()
            rest = np.delete(np.arange(LENGTH), chosen)
            assert after[row, rest].tolist() == tokens[rest].tolist()
        is_mask, new = weights > 0, np.take_along_axis(after, positions, 1)
        same = is_mask & (new == labels)
        counts += [(is_mask & (new == MASK)).sum(), same.sum(), is_mask.sum()]
    n, random = counts[2], 0.1 / len(VOCABULARY)  # a random token can be [MASK] or the same
    for count, rate in zip(counts, (0.7 + random, 0.2 + random), strict=False):
        assert abs(count / n - rate) < 4 * (rate * (1 - rate) / n) ** 0.5


def test_the_number_of_masks_is_rounded_as_by_kbert(jax, monkeypatch):
    monkeypatch.syspath_prepend(RECIPES)
    from experiments.jax_loop import mask_tokens

    lengths = np.arange(3, 513)
    candidates = (np.arange(512) > 0) & (np.arange(512) < lengths[:, None] - 1)
    token_ids = jax.numpy.full((len(lengths), 512), 7)
    arrays = token_ids, jax.numpy.asarray(candidates), jax.numpy.asarray(lengths)
    weights = mask_tokens(jax.random.PRNGKey(0), *arrays, 80, (0.8, 0.1), MASK, len(VOCABULARY))[3]
    expected = TokenMasking(make_tokenizer(), 80).most_masks(lengths).numpy()
    np.testing.assert_array_equal(weights.sum(1), np.minimum(expected, lengths - 2))


def test_next_tokens_are_those_of_kbert(written, jax, monkeypatch):
    monkeypatch.syspath_prepend(RECIPES)
    from experiments.jax_loop import lay_out, next_tokens

    rows = written / "single"
    numbers = (jax.numpy.asarray(np.load(rows / name)) for name in ("train-tokens.npy", f"train-{LENGTH}.npy"))
    token_ids, _, padding = lay_out(*numbers, LENGTH, False, CLS, SEP)
    is_candidate = padding & (token_ids != CLS) & (token_ids != SEP)
    found = next_tokens(token_ids, is_candidate, LENGTH - 2)
    batch = {"token_ids": np.asarray(token_ids), "padding_mask": np.asarray(padding)}
    inputs, labels, weights = NextTokens(make_tokenizer(), LENGTH - 2).call(batch)
    for one, expected in zip(found, (inputs["mask_positions"], labels, weights), strict=True):
        np.testing.assert_array_equal(one, expected)


UPDATES = (
    BLOCK_TENSORFLOW
    + """
import sys
sys.path.insert(0, sys.argv[1])
import json
import jax
import jax.numpy as jnp
import keras
import numpy as np
from experiments.jax_loop import Loop
from kbert.config import BertConfig
from kbert.models.pretrainer import BertPretrainer
from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay
from kbert.optim.warmup_stable_decay import WarmupStableDecay

rows, special, steps, length = sys.argv[2], [int(x) for x in sys.argv[3:6]], 10, 32
sizes = {"num_layers": 1, "hidden_dim": 8, "num_heads": 2, "intermediate_dim": 12, "max_sequence_length": 48}
config = BertConfig(vocabulary_size=int(sys.argv[6]), hidden_dropout=0.0, attention_dropout=0.0, **sizes)
tokens, table = (jnp.asarray(np.load(f"{rows}/{name}.npy")) for name in ("train-tokens", f"train-{length}"))
order, key = jnp.arange(steps * 4).reshape(steps, 4), jax.random.PRNGKey(1)
rates, mixtures, stable = [3e-3, 1e-2], [[0.8, 0.1], [0.0, 1.0]], sys.argv[7] == "True"
keras.utils.set_random_seed(2)
loop = Loop(BertPretrainer(config), special, rates, mixtures, stable)
first = [np.asarray(variable) for variable in loop.model.trainable_variables]
state, _ = loop.train(loop.state, tokens, table, jnp.asarray(0), order, key, float(steps), 3.0, length=length)
differences = []
for number, rate in enumerate(rates):
    model = BertPretrainer(config)
    for variable, value in zip(model.trainable_variables, first, strict=True):
        variable.assign(value)
    schedule = WarmupStableDecay(rate, 3, steps, 2) if stable else WarmupLinearDecay(rate, 3, steps)
    model.compile(AdamW(schedule, bias_correction=True))
    for step in range(steps):
        keys = jax.random.split(jax.random.fold_in(key, step), len(rates))
        batch = loop._batch(tokens, table[:, order[step]], keys[number], loop.mixtures[number], length)
        inputs, labels, weights = jax.tree.map(np.asarray, batch)
        more = {"mlm_logits": weights, "nsp_logits": np.ones(4, "float32")}
        model.train_on_batch(inputs, labels, sample_weight=more)
    for variable, values, begin in zip(model.trainable_variables, state[0], first, strict=True):
        value = np.asarray(values[number])
        differences.append([np.abs(np.asarray(variable) - value).max(), np.abs(value - begin).max()])
print(json.dumps(np.max(differences, axis=0).tolist()))
"""
)


@pytest.mark.parametrize("stable", slow_but([True], [True, False]))
def test_updates_are_those_of_compile_and_train_on_batch(written, jax, stable):
    arguments = RECIPES, written / "rows", CLS, SEP, MASK, len(VOCABULARY), stable
    difference, movement = run_python(UPDATES, *arguments, backend="jax")
    assert difference < 1e-5 < 1e-2 < movement


WRONG = [  # rows, options, what the error says
    ("rows", ["--phases", "32:0.9", "48:0.1", "--steps", "60"], "whole chunks of 60 steps"),
    ("rows", ["--phases", "32:0.5"], "must have the sum 1"),
    ("rows", ["--phases", "64:1"], "no rows of 64 tokens: gpu_rows.py writes some: --lengths 64"),
    (
        "rows",
        ["--phases", "32:0.5", "48:0.5", "--batch-size", "1", "--steps", "4", "--chunk", "2"],
        "with a row an update",
    ),
    ("rows", ["--phases", "32:1", "--masks", "80/10"], "three percentages that add up to 100"),
    ("rows", ["--phases", "32:1", "--masks", "110/-10/0"], "three percentages that add up to 100"),
    ("rows", ["--phases", "32:1", "--steps", "0"], "`steps` must be"),
    ("rows", ["--phases", "32:1", "--size", "tiny", "--steps", "9", "--output", __file__ + "/run"], "Not a directory"),
    ("rows", ["--phases", "32:1", "--init", "absent"], "must be a model directory"),
    ("rows", ["--phases", "32:1", "--init", "absent", "--size", "tiny"], "`size` or `left_to_right` as well"),
    ("absent", [], "absent"),
    ("text.txt", [], "text.txt"),
]
# All in one process, as importing JAX and Keras takes seconds; the last line that each call printed, and its status.
CALLS = """
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
from kbert.cli import run_command
from pretrain_on_gpu import COMMAND

found = []
for arguments in json.loads(sys.argv[2]):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            run_command(COMMAND, arguments)
            status = 0
        except SystemExit as exit:
            status = exit.code
    # An interpreter prints a status that is a string.
    lines = said.getvalue().splitlines() + ([status] if isinstance(status, str) else [])
    found.append([status, lines[-1]])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def said(written, jax):
    """The status and last line of each call in WRONG, and the directory that none of them may make."""
    output = written / "run"
    calls = [[str(written / rows), "--output", str(output), *options] for rows, options, _ in WRONG]
    return run_python(CALLS, RECIPES, json.dumps(calls), backend="jax"), output


@pytest.mark.parametrize("number", range(len(WRONG)), ids=[message for *_, message in WRONG])
def test_wrong_arguments(said, number):
    (status, line), message = said[0][number], WRONG[number][2]
    assert status and line.startswith("error: ") and message in line and not said[1].exists()


TRAIN = (
    BLOCK_TENSORFLOW
    + """
import sys
sys.path.insert(0, sys.argv[1])
from kbert.cli import run_command
from pretrain_on_gpu import COMMAND
run_command(COMMAND, sys.argv[2:])
print("null")
"""
)


@pytest.mark.slow
def test_a_run_and_its_models(written, jax, tmp_path):
    options = ["--steps", "60", "--chunk", "6", "--learning-rates", "3e-3", "0", "--masks", "80/10/10", "100/0/0"]
    options += ["--phases", f"{LENGTH}:0.8", "48:0.2", "--precision", "float32", "--output", tmp_path / "run"]
    run_python(TRAIN, RECIPES, written / "rows", *options, backend="jax")
    for name in ("80-10-10", "100-0-0"):
        run = tmp_path / "run" / name
        history = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
        assert [line["sequence_length"] for line in history] == [LENGTH] * 8 + [48] * 2
        assert history[7]["val_mlm_cross_entropy"] < history[0]["val_mlm_cross_entropy"] - 0.1  # a rate of 0 stays
        model = kbert.load_pretrained(run)
        assert model.next_sentence and model.pretrained.tokenizer.vocabulary == VOCABULARY
        made_by = read_json(run / "model" / "kbert.json")["made_by"]
        assert made_by["settings"]["learning_rate"] == 3e-3 and made_by["metrics"]["steps"] == 60
        assert sorted(path.name for path in run.iterdir()) == [
            *("history.jsonl", "metrics.json"),
            *("model", "model@12", "model@24", "model@36", "model@48"),
        ]
    scores = kbert.pretraining.evaluate_pretraining(tmp_path / "run/80-10-10", written / "records", sequence_length=48)
    last = read_json(tmp_path / "run/80-10-10/model/kbert.json")["made_by"]["metrics"]
    assert abs(scores["mlm_cross_entropy"] - last["mlm_cross_entropy"]) < 0.1  # other masks
    assert abs(scores["mlm_accuracy"] - last["mlm_accuracy"]) < 0.03
    assert abs(scores["nsp_accuracy"] - last["nsp_accuracy"]) < 0.15
    more = ["--init", tmp_path / "run/80-10-10", "--phases", "32:1", "--steps", "2", "--output", tmp_path / "more"]
    run_python(TRAIN, RECIPES, written / "rows", *more, backend="jax")
    inputs = read_json(tmp_path / "more/80-10-10/model/kbert.json")["made_by"]["inputs"]
    assert inputs["init"]["made_by"]["metrics"] == last
