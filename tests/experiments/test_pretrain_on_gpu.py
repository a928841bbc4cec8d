"""The recipe that pre-trains several models in one loop on JAX: its rows and masks, and a whole run."""

import json
import subprocess
import sys

import numpy as np
import pytest
from helpers.paths import ROOT
from helpers.run_python import BLOCK_TENSORFLOW, run_python
from helpers.run_recipe import read_json
from helpers.tiny_corpus import VOCABULARY, make_documents, write_lines

import kbert
from kbert.corpus.records import Records
from kbert.pretraining.pairs import sentence_pairs

pytestmark = pytest.mark.parity
RECIPE = ROOT / "recipes" / "pretrain_on_gpu.py"
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
        lengths = ("--lengths", str(LENGTH), "48", "--epochs", "2")
        command = [sys.executable, RECIPE, "rows", path / "records", "--output", path / name, *lengths, *options]
        subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
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
    monkeypatch.syspath_prepend(ROOT / "recipes")
    from pretrain_on_gpu import lay_out

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
    monkeypatch.syspath_prepend(ROOT / "recipes")
    from pretrain_on_gpu import lay_out, mask_tokens

    tokens, table = np.load(written / "rows" / "train-tokens.npy"), np.load(written / "rows" / f"train-{LENGTH}.npy")
    before, _, padding = lay_out(jax.numpy.asarray(tokens), jax.numpy.asarray(table), LENGTH, True, CLS, SEP)
    is_candidate, counts = padding & (before != CLS) & (before != SEP), np.zeros(3)
    for seed in range(20):
        key, lengths = jax.random.PRNGKey(seed), padding.sum(1)
        found = mask_tokens(key, before, is_candidate, lengths, 4, (0.7, 0.2), MASK, len(VOCABULARY))
        after, positions, labels, weights = map(np.asarray, found)
        for row, length in enumerate(np.asarray(lengths)):
            number = min(4, max(1, round(int(length) * 0.15)), int(is_candidate[row].sum()))
            chosen = positions[row, :number]
            assert weights[row].tolist() == [1.0] * number + [0.0] * (4 - number) and (np.diff(chosen) > 0).all()
            assert is_candidate[row][chosen].all() and labels[row, :number].tolist() == before[row][chosen].tolist()
            assert not positions[row, number:].any() and not labels[row, number:].any()
            rest = np.delete(np.arange(LENGTH), chosen)
            assert after[row, rest].tolist() == before[row][rest].tolist()
        is_mask, new = weights > 0, np.take_along_axis(after, positions, 1)
        same = is_mask & (new == labels)
        counts += [(is_mask & (new == MASK)).sum(), same.sum(), is_mask.sum()]
    n, random = counts[2], 0.1 / len(VOCABULARY)  # a random token can be [MASK] or the same
    for count, rate in zip(counts, (0.7 + random, 0.2 + random), strict=False):
        assert abs(count / n - rate) < 4 * (rate * (1 - rate) / n) ** 0.5


TRAIN = (
    BLOCK_TENSORFLOW
    + """
import json, sys
sys.path.insert(0, sys.argv[1])
import pretrain_on_gpu
pretrain_on_gpu.main(["train", *sys.argv[2:]])
print(json.dumps([name for name in sys.modules if name.split(".")[0] == "tensorflow"]))
"""
)


@pytest.mark.slow
def test_a_run_and_its_models(written, jax, tmp_path):
    options = ["--steps", "60", "--chunk", "6", "--learning-rates", "3e-3", "0", "--masks", "80/10/10", "100/0/0"]
    options += ["--phases", f"{LENGTH}:0.8", "48:0.2", "--precision", "float32", "--output", tmp_path / "run"]
    assert run_python(TRAIN, ROOT / "recipes", written / "rows", *options, backend="jax") == []
    command = [sys.executable, RECIPE, "models", tmp_path / "run", "--vocabulary", written / "rows" / "vocab.txt"]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    for name in ("80-10-10", "100-0-0"):
        told = read_json(tmp_path / "run" / f"{name}.json")
        history = told["history"]
        assert told["learning_rate"] == 3e-3 and [one["length"] for one in history] == [LENGTH] * 8 + [48] * 2
        assert history[7]["held_out"][0] < history[0]["held_out"][0] - 0.1  # a rate of 0 learns nothing
        model = kbert.load_pretrained(tmp_path / "run" / name)
        assert model.next_sentence and model.pretrained.tokenizer.vocabulary == VOCABULARY
        scores = kbert.pretraining.evaluate_pretraining(model, written / "records", sequence_length=48)
        if name == "80-10-10":  # the loop's own masks differ from kbert's
            assert abs(scores["mlm_cross_entropy"] - history[-1]["held_out"][0]) < 0.1
        assert (tmp_path / "run" / f"{name}@12" / "model.weights.h5").is_file()
    assert json.loads((tmp_path / "run" / name / "manifest.json").read_text())["made_by"]["recipe"] == RECIPE.name
