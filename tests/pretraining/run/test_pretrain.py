"""`kbert.pretrain`: from text and from records, with and without an output, from models that are given."""

import functools
import re
import shutil

import keras
import numpy as np
import pytest
from helpers.compare import assert_arrays_equal
from helpers.pretraining_fields import pretraining_fields, pretraining_settings
from helpers.run_eagerly import run_eagerly
from helpers.tiny_corpus import VOCABULARY, make_documents, make_pretrainer, make_tokenizer, write_lines
from helpers.wrong_values import wrong_values

import kbert
from kbert.config import BertConfig
from kbert.corpus import Records
from kbert.files import read_json
from kbert.pretraining.run import run_pretraining
from kbert.pretraining.run.corpus_data import CorpusData
from kbert.training import dry_run
from kbert.training.dry_run import count_sequences, format_estimate

pytestmark = pytest.mark.usefixtures("same_data")

# Packed rows, and whether they pay: test_packing.py.
SHORT = {"steps": 2, "batch_size": 4, "sequence_length": 16, "evaluation_batches": 1, "packed": False}
TEXT = SHORT | {"held_out": 0.2}


@pytest.fixture(scope="module")
def home(records, tmp_path_factory):
    path = tmp_path_factory.mktemp("home")
    write_lines(path / "corpus.txt", make_documents(60))
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    shutil.copytree(records, path / "records")
    return path


@pytest.fixture(scope="module")
def run(home, tmp_path_factory):
    """A run without an output directory, in an empty current directory; a callback of the caller sees it."""
    seen, empty = [], tmp_path_factory.mktemp("empty")
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(logs["step"]))
    before = sorted(home.rglob("*"))
    arguments = {"vocabulary": make_tokenizer(), "log_every": 1, "checkpoint_every": 1, "callbacks": [callback]}
    with pytest.MonkeyPatch.context() as patch, run_eagerly():
        patch.chdir(empty)
        found = kbert.pretrain(home / "corpus.txt", **arguments, **TEXT)
    assert seen == [1, 2]
    assert sorted(home.rglob("*")) == before and not list(empty.iterdir())  # nothing is written
    return found


def test_without_an_output(run):
    assert run.path is None and [record["step"] for record in run.history] == [1, 2]
    assert "val_mlm_accuracy" in run.history[-1] and run.metrics["steps"] == 2


def test_the_run_has_a_pipeline(run):
    answers = run.pipeline.predict(["a [MASK] c"], verbose=0)
    assert answers["tokens"].shape[0] == 1 and run.settings.sequence_length == 16
    assert run.model.task == "pretraining" and run.metrics["unigram"]["cross_entropy"] > 0
    assert 0.5 <= run.metrics["unigram"]["nsp_accuracy"] <= 1
    assert repr(run).startswith("PretrainingRun(metrics=") and "Settings" not in repr(run)


@pytest.mark.usefixtures("eagerly")
def test_a_run_in_a_directory_is_the_run_without_one(home, run, tmp_path):
    written = kbert.pretrain(home / "corpus.txt", vocabulary=home / "vocab.txt", output=tmp_path / "run", **TEXT)
    assert written.path == tmp_path / "run" and read_json(written.path / "settings.json")["steps"] == 2
    assert set(read_json(written.path / "inputs.json")["inputs"]) == {"corpus_or_records", "vocabulary"}
    assert_arrays_equal(run.model.get_weights(), written.model.get_weights())
    with pytest.raises(FileExistsError, match="finished run"):
        kbert.pretrain(home / "corpus.txt", vocabulary=home / "vocab.txt", output=tmp_path / "run", **TEXT)


@pytest.mark.usefixtures("eagerly")
def test_a_run_that_a_callback_stopped(home, run):
    stop = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: setattr(stop.model, "stop_training", True)
    )
    arguments = {"vocabulary": make_tokenizer(), "log_every": 1, "checkpoint_every": 1, "callbacks": stop}
    stopped = kbert.pretrain(home / "corpus.txt", **arguments, **TEXT)
    assert stopped.metrics["steps"] == stopped.history[-1]["step"] == 1
    assert stopped.metrics["epochs"] == pytest.approx(run.metrics["epochs"] / 2)


def test_an_occupied_output_is_refused_before_long_work(home, tmp_path, monkeypatch):
    monkeypatch.setattr("kbert.pretraining.run.corpus_data.starting_model", None)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match="other files than a run's"):
        kbert.pretrain(home / "records", output=tmp_path, **{**SHORT, "packed": None})


def test_an_output_in_the_corpus_is_refused_before_long_work(home, tmp_path, monkeypatch):
    """The run would find its own vocab.txt when it resumes."""
    monkeypatch.setattr("kbert.pretraining.run.corpus_data.starting_model", None)
    (tmp_path / "a.txt").write_bytes((home / "corpus.txt").read_bytes())
    options = {**SHORT, **TEXT, "vocabulary": home / "vocab.txt", "packed": None, "output": tmp_path / "run"}
    for pattern in ("**/*.txt", "*/*/*/*", "*/*"):
        with pytest.raises(ValueError, match="`output` outside the corpus. Received: .*run, where "):
            kbert.pretrain([tmp_path / "a.txt", tmp_path / pattern], **options)
    assert not (tmp_path / "run").exists()


def test_wrong_options(home):
    wrong_values(
        functools.partial(kbert.pretrain, home / "records", **SHORT),
        ("checkpoint_every", 0, "a positive integer or None. Received: 0"),
        ({"keep_every": 500}, "`keep_every` needs `output`. Received: keep_every=500"),
        ("overwrite", "no", "True or False. Received: 'no'"),
        owner="pretrain: ",
    )


@pytest.mark.usefixtures("eagerly")
def test_a_given_model_is_trained_itself(home, run):
    before = run.model.get_weights()
    found = kbert.pretrain(home / "corpus.txt", init=run.pipeline, learning_rate=1e-2, **TEXT)
    assert found.model is run.model and found.tokenizer.settings() == run.tokenizer.settings()
    assert any(np.abs(one - other).max() > 1e-4 for one, other in zip(before, run.model.get_weights(), strict=True))


@pytest.mark.slow  # the same of kbert.finetune: finetuning/test_finetune.py
def test_accumulated_batches_are_the_batch(home):
    with run_eagerly():
        whole, parts = (
            kbert.pretrain(
                home / "records",
                init=make_pretrainer(16, hidden_dropout=0.0, attention_dropout=0.0),
                accumulate=n,
                learning_rate=0.01,
                **SHORT | {"steps": 3},
            )
            for n in (1, 2)
        )
    assert (whole.model.micro_batches, parts.model.micro_batches) == (1, 2)
    assert [record["step"] for record in parts.history] == [record["step"] for record in whole.history] == [0, 3]
    for name in ("loss", "mlm_cross_entropy", "gradient_norm", "learning_rate"):
        np.testing.assert_allclose(parts.history[1][name], whole.history[1][name], rtol=1e-4, err_msg=name)
    for name in ("mlm_cross_entropy", "mlm_accuracy", "nsp_accuracy"):  # of the same held-out rows
        np.testing.assert_allclose(parts.metrics[name], whole.metrics[name], rtol=1e-4, err_msg=name)
    for one, other in zip(parts.model.get_weights(), whole.model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.fixture
def no_estimate(monkeypatch):
    """A dry run goes as far as the compiled model and the held-out batches: its weights are not trained."""
    monkeypatch.setattr(run_pretraining, "estimate_pretraining", lambda *arguments: {})


@pytest.mark.slow  # models/test_train_in_parts.py
@pytest.mark.usefixtures("no_estimate")
def test_a_batch_is_divided(home):
    found = kbert.pretrain(home / "records", init=make_pretrainer(16), accumulate=2, dry_run=True, **SHORT)
    assert found.model.micro_batches == 2
    with pytest.raises(ValueError, match=r"multiple of `accumulate`, 2. Received: \[1\]"):
        kbert.pretrain(home / "records", accumulate=2, batch_size_ramp=(1, 0.5), **SHORT)


def test_a_given_model_must_fit(home, run):
    for change, message in (({"sequence_length": 600}, "at most 512 .* Received: 600"), ({"dropout": 0.0}, "dropout")):
        with pytest.raises(ValueError, match=message):
            kbert.pretrain(home / "corpus.txt", init=run.pipeline, **TEXT | change)
    with pytest.raises(ValueError, match="needs `vocabulary`"):
        kbert.pretrain(home / "corpus.txt", init=run.model, **TEXT)
    with pytest.raises(ValueError, match="BertPretrainer with task 'masked_lm'. Received: 'pretraining'"):
        kbert.pretrain(home / "records", init=run.model, next_sentence=False, **SHORT)


@pytest.mark.slow  # training/test_hardware.py
@pytest.mark.usefixtures("no_estimate")
def test_the_dtype_policy_is_the_callers_again(home, monkeypatch):
    def policy():
        return keras.config.dtype_policy().name

    half = kbert.pretrain(home / "records", precision="mixed_bfloat16", dry_run=True, **SHORT).model
    assert (half.encoder.dtype_policy.name, policy()) == ("mixed_bfloat16", "float32")
    assert kbert.pretrain(home / "records", init=half, dry_run=True, **SHORT).model.dtype_policy == half.dtype_policy
    with pytest.raises(ValueError, match=r"`precision` must be 'mixed_bfloat16' or .* Received: 'float32'"):
        kbert.pretrain(home / "records", init=half, precision="float32", **SHORT)
    with monkeypatch.context() as patch, pytest.raises(TypeError, match="NoneType"):
        patch.setattr(run_pretraining, "compile_models", None)  # fails once the model is there
        kbert.pretrain(home / "records", precision="mixed_bfloat16", **SHORT)
    assert policy() == "float32"
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        found = kbert.pretrain(home / "records", dry_run=True, **SHORT)
        assert found.model.dtype_policy.name == policy() == "mixed_bfloat16"
    finally:
        keras.config.set_dtype_policy("float32")


@pytest.mark.slow  # models/test_grow.py
@pytest.mark.usefixtures("no_estimate")
def test_a_loaded_model_grows_to_a_larger_size(home, tmp_path):
    smaller = kbert.BertPretrainer(BertConfig.from_size("tiny", vocabulary_size=len(VOCABULARY)))
    kbert.save_pretrained(smaller, tmp_path / "tiny", tokenizer=make_tokenizer())
    found = kbert.pretrain(home / "records", init=tmp_path / "tiny", size="mini", dry_run=True, **SHORT)
    assert (found.model.config.hidden_dim, found.model.config.num_layers) == (256, 4)
    table = keras.ops.convert_to_numpy(smaller.encoder.token_embedding.embeddings)
    grown = keras.ops.convert_to_numpy(found.model.encoder.token_embedding.embeddings)
    np.testing.assert_array_equal(grown, np.tile(table, 2))
    with pytest.raises(
        ValueError, match="`init` has an architecture and weights of its own. Received: {'size': 'mini'}"
    ):
        kbert.pretrain(home / "records", init=smaller, size="mini", dry_run=True, **SHORT)


@pytest.mark.parametrize(
    "settings", [{"lowercase": False}, {"max_word_length": 100, "special_tokens_in_text": ["[E1]"]}]
)
def test_records_of_another_tokenizer_are_made_again_with_the_model(home, tmp_path, settings):
    model, tokenizer = tmp_path / "other", kbert.BertTokenizer([*VOCABULARY[:-1], "[E1]"], **settings)
    kbert.save_pretrained(make_pretrainer(16), model, tokenizer=tokenizer)
    advice = f"Prepare the records again: kbert records --vocabulary {model} ({home / 'records'} was made with"
    with pytest.raises(ValueError, match=re.escape(advice)):
        kbert.pretrain(home / "records", init=model, **SHORT)
    corpus = write_lines(tmp_path / "corpus.txt", make_documents(20))
    options = {"held_out": 0.2, "sequence_length": 16}
    kbert.pretraining.prepare_records(corpus, model, tmp_path / "records", **options)
    Records(tmp_path / "records").check_tokenizer(tokenizer)
    with pytest.raises(ValueError, match="`lowercase` goes with a `vocabulary` file"):
        kbert.pretraining.prepare_records(corpus, model, tmp_path / "more", lowercase=False, **options)


@pytest.mark.slow  # models/test_left_to_right.py
@pytest.mark.usefixtures("no_estimate")  # left-to-right models are trained in experiments/test_study.py
def test_a_model_is_continued_in_its_direction(home, tmp_path):
    left_to_right = SHORT | {"next_sentence": False, "left_to_right": True, "dry_run": True}
    first = kbert.pretrain(home / "records", **left_to_right).model
    assert (first.config.causal, first.config.pooled_token) == (True, "last")
    kbert.save_pretrained(first, tmp_path / "first", tokenizer=make_tokenizer())
    for init in (tmp_path / "first", first):
        with pytest.raises(ValueError, match="must be a bidirectional model .* Received: a left-to-right model"):
            kbert.pretrain(home / "records", init=init, **left_to_right | {"left_to_right": False})
    assert kbert.pretrain(home / "records", init=tmp_path / "first", **left_to_right).model.config.causal
    with pytest.raises(ValueError, match="must be a left-to-right model .* Received: a bidirectional model"):
        keras.utils.set_random_seed(3)
        config = make_pretrainer(16, hidden_dropout=0.0, attention_dropout=0.0).config
        kbert.pretrain(home / "records", init=kbert.BertPretrainer(config, next_sentence=False), **left_to_right)


@pytest.mark.slow  # finetuning/test_finetune_inputs.py::test_an_estimate_writes_nothing
@pytest.mark.usefixtures("eagerly")
def test_a_dry_run_says_what_it_would_take(home, tmp_path, monkeypatch):
    to_the_end = functools.partial(count_sequences, seconds=float("inf"))
    monkeypatch.setattr("kbert.pretraining.run.corpus_data.count_sequences", to_the_end)
    monkeypatch.setattr(CorpusData, "evaluations", lambda data: {})
    monkeypatch.setattr(dry_run, "_STEPS", 1)
    plan = SHORT | {"steps": 1000, "sequence_length": None, "phases": [(16, 0.75), (24, 0.25)]}
    plan["position_embedding"] = "sinusoidal"
    found = kbert.pretrain(home / "records", dry_run=True, output=tmp_path / "run", **plan)
    metrics = found.metrics
    assert [(one["steps"], one["sequence_length"]) for one in metrics["stages"]] == [(750, 16), (250, 24)]
    assert "750 steps of 4 rows of 16 tokens: 48,000 tokens\n250 steps of" in format_estimate(metrics)
    assert not (tmp_path / "run").exists() and found.history == []
    assert found.model.config.position_embedding == "sinusoidal"
    assert metrics["steps"] == 1000 and metrics["tokens"] == 750 * 4 * 16 + 250 * 4 * 24
    assert metrics["sequences_are_all"] and metrics["sequences_per_epoch"] > 60
    assert metrics["parameters"] == found.model.count_params() > 100_000
    assert metrics["seconds"] == pytest.approx(1000 * metrics["seconds_per_step"]) and metrics["seconds"] > 0
    assert metrics["memory_bytes"] > 16 * metrics["parameters"]


def test_the_share_that_is_held_out_is_of_text(home):
    assert pretraining_settings(**pretraining_fields(steps=2)).held_out == 0.01
    records = pretraining_fields(source=home / "records", vocabulary=None, steps=2)
    assert pretraining_settings(**records).to_dict()["held_out"] is None
    with pytest.raises(ValueError, match="pretrain: records have held-out documents of their own.* held_out=0.01"):
        pretraining_settings(**records | {"held_out": 0.01})


@pytest.mark.usefixtures("no_estimate")
def test_the_blocks_of_a_given_model_stay_as_they_are(home):
    model = make_pretrainer(16)
    model.encoder.blocks[0].rematerialize = True
    for given, expected in (({}, True), ({"rematerialize": False}, False)):
        copy = kbert.pretrain(home / "records", init=model, dry_run=True, **given, **SHORT).model
        assert copy.encoder.blocks[0].rematerialize is expected and model.encoder.blocks[0].rematerialize
