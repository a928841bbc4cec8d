"""`kbert.pretrain`: from text and from records, with and without an output, from models that are given."""

import keras
import numpy as np
import pytest
from helpers.tiny_corpus import VOCABULARY, make_documents, make_tokenizer, write_lines

import kbert
from kbert.corpus.write_records import write_records
from kbert.files import read_json
from kbert.tasks.pretraining.pretraining_settings import PretrainingSettings

SHORT = {"steps": 4, "batch_size": 4, "sequence_length": 16, "evaluation_batches": 1}
TEXT = SHORT | {"held_out": 0.2}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    path = tmp_path_factory.mktemp("home")
    write_lines(path / "corpus.txt", make_documents(60))
    (path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    write_records(make_documents(60), make_tokenizer(), path / "records", shard_tokens=300, held_out=0.2)
    return path


@pytest.fixture(scope="module")
def run(home, tmp_path_factory):
    """A run without an output directory, in an empty current directory; a callback of the caller sees it."""
    seen, empty = [], tmp_path_factory.mktemp("empty")
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(logs["step"]))
    before = sorted(home.rglob("*"))
    arguments = {"vocabulary": make_tokenizer(), "log_every": 2, "checkpoint_every": 2, "callbacks": [callback]}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(empty)
        found = kbert.pretrain(home / "corpus.txt", **arguments, **TEXT)
    assert seen == [2, 4]
    assert sorted(home.rglob("*")) == before and not list(empty.iterdir())  # nothing is written
    return found


def test_without_an_output(run):
    assert run.path is None and [record["step"] for record in run.history] == [2, 4]
    assert "val_mlm_accuracy" in run.history[-1] and run.metrics["steps"] == 4


def test_the_run_has_a_pipeline(run):
    answers = run.pipeline.predict(["a [MASK] c"], verbose=0)
    assert answers["tokens"].shape[0] == 1 and run.settings.sequence_length == 16
    assert run.model.task == "pretraining" and run.metrics["unigram"]["cross_entropy"] > 0
    assert 0.5 <= run.metrics["unigram"]["nsp_accuracy"] <= 1
    assert repr(run).startswith("PretrainingRun(metrics=") and "Settings" not in repr(run)


def test_a_run_in_a_directory_is_the_run_without_one(home, run, tmp_path):
    written = kbert.pretrain(home / "corpus.txt", vocabulary=home / "vocab.txt", output=tmp_path / "run", **TEXT)
    assert written.path == tmp_path / "run" and read_json(written.path / "settings.json")["steps"] == 4
    assert set(read_json(written.path / "inputs.json")["inputs"]) == {"corpus", "vocab"}
    for one, other in zip(run.model.get_weights(), written.model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(FileExistsError, match="finished run"):
        kbert.pretrain(home / "corpus.txt", vocabulary=home / "vocab.txt", output=tmp_path / "run", **TEXT)


def test_a_given_model_is_trained_itself(home, run):
    before = run.model.get_weights()
    found = kbert.pretrain(home / "corpus.txt", init=run.pipeline, learning_rate=1e-2, **TEXT)
    assert found.model is run.model and found.tokenizer.settings() == run.tokenizer.settings()
    assert any(np.abs(one - other).max() > 1e-4 for one, other in zip(before, run.model.get_weights(), strict=True))


def test_a_given_model_must_fit(home, run):
    for change, message in (({"sequence_length": 600}, "at most 512 .* Received: 600"), ({"dropout": 0.0}, "dropout")):
        with pytest.raises(ValueError, match=message):
            kbert.pretrain(home / "corpus.txt", init=run.pipeline, **TEXT | change)
    with pytest.raises(ValueError, match="needs `vocabulary`"):
        kbert.pretrain(home / "corpus.txt", init=run.model, **TEXT)
    with pytest.raises(ValueError, match="BertPretrainer with task 'masked_lm'. Received: 'pretraining'"):
        kbert.pretrain(home / "records", init=run.model, next_sentence=False, **SHORT)


def test_a_dry_run_says_what_it_would_take(home, tmp_path):
    found = kbert.pretrain(home / "records", dry_run=True, output=tmp_path / "run", **SHORT | {"steps": 1000})
    metrics = found.metrics
    assert not (tmp_path / "run").exists() and found.history == []
    assert metrics["steps"] == 1000 and metrics["tokens"] == 1000 * 4 * 16
    assert metrics["sequences_are_all"] and metrics["sequences_per_epoch"] > 60
    assert metrics["parameters"] == found.model.count_params() > 100_000
    assert metrics["seconds"] == pytest.approx(1000 * metrics["seconds_per_step"]) and metrics["seconds"] > 0
    assert metrics["memory_bytes"] > 16 * metrics["parameters"]


def test_settings_are_complete_and_identify_objects():
    fields = {name: None for name in ("size", "init", "warmup_steps", "max_predictions", "dropout", "logical_cpus")}
    fields |= {"source": "a.txt", "vocabulary": make_tokenizer(), "lowercase": True, "learning_rate": 1e-4}
    fields |= {"schedule": "linear", "whole_word": False, "next_sentence": True, "left_to_right": False}
    fields |= {"seed": 0, "strategy": "auto", "precision": "auto", **TEXT}
    settings = PretrainingSettings(**fields).to_dict()
    assert settings["corpus"] == ["a.txt"] and (settings["warmup_steps"], settings["max_predictions"]) == (1, 3)
    assert len(settings["vocab"]["sha256"]) == 64 and settings["vocab"]["lowercase"] is True
    for name, value in (("schedule", "cosine"), ("learning_rate", 0.0), ("dropout", 1.0), ("steps", 0)):
        with pytest.raises(ValueError, match=f"`{name}`"):
            PretrainingSettings(**fields | {name: value})
