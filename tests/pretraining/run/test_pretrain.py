"""`kbert.pretrain`: from text and from records, with and without an output, from models that are given."""

import dataclasses
import functools
import re
import shutil

import keras
import numpy as np
import pytest
from helpers.at_step import Killed, killed_at
from helpers.compare import assert_arrays_equal
from helpers.counting import Counting
from helpers.random_numbers import assert_not_reset
from helpers.run_eagerly import run_eagerly
from helpers.tiny_corpus import VOCABULARY, make_documents, make_pretrainer, make_tokenizer, write_lines
from helpers.wrong_values import wrong_values

import kbert
from kbert.corpus import Records
from kbert.files import read_json
from kbert.pretraining import Execution
from kbert.pretraining.run import pretrain as pretrain_module

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
def test_the_random_numbers_of_the_user_go_on(home):
    assert_not_reset(lambda: kbert.pretrain(home / "corpus.txt", vocabulary=make_tokenizer(), **TEXT | {"steps": 1}))


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
    monkeypatch.setattr("kbert.pretraining.run.corpus_data.CorpusData.choose_packing", None)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FileExistsError, match="other files than a run's"):
        kbert.pretrain(home / "records", output=tmp_path, **{**SHORT, "packed": None})


def test_a_resumed_run_keeps_its_packing_and_the_states_of_callbacks(home, tmp_path, monkeypatch):
    options = {**SHORT, "packed": None, "checkpoint_every": 1, "output": tmp_path}
    pays = "kbert.pretraining.run.corpus_data.packing_pays"
    with run_eagerly():
        monkeypatch.setattr(pays, lambda records, data: True)
        with pytest.raises(Killed):
            kbert.pretrain(home / "records", callbacks=[Counting(), killed_at(2)], **options)
        monkeypatch.setattr(pays, lambda records, data: False)
        resumed = Counting()
        kbert.pretrain(home / "records", callbacks=resumed, **options)
    assert read_json(tmp_path / "settings.json")["packed"] is True
    assert resumed.seen == 2  # one window before, one after


def test_wrong_options(home):
    wrong_values(
        functools.partial(kbert.pretrain, home / "records", **SHORT),
        ("checkpoint_every", 0, "a positive integer. Received: 0"),
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


@pytest.fixture
def no_estimate(monkeypatch):
    """A dry run goes as far as the compiled model and the held-out batches: its weights are not trained."""
    monkeypatch.setattr(pretrain_module, "_estimate", lambda *arguments: {})


def test_a_misspelled_corpus_is_named(home):
    with pytest.raises(ValueError, match="No file matches .*/record'.*"):
        kbert.pretrain(home / "record", steps=1)


def test_a_given_model_must_fit(home, run):
    for change, message in (({"sequence_length": 600}, "table, 512. Received: 600"), ({"dropout": 0.0}, "dropout")):
        with pytest.raises(ValueError, match=message):
            kbert.pretrain(home / "corpus.txt", init=run.pipeline, **TEXT | change)
    with pytest.raises(ValueError, match="needs `vocabulary`"):
        kbert.pretrain(home / "corpus.txt", init=run.model, **TEXT)
    larger = kbert.BertPretrainer(dataclasses.replace(run.model.config, vocabulary_size=99))
    with pytest.raises(ValueError, match=r"pretrain: the vocabulary must have as many tokens as .* rows \(99\)"):
        kbert.pretrain(home / "corpus.txt", init=larger, vocabulary=run.pipeline.tokenizer, **TEXT)
    with pytest.raises(ValueError, match="BertPretrainer with task 'masked_lm'. Received: 'pretraining'"):
        kbert.pretrain(home / "records", init=run.model, next_sentence=False, **SHORT)


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


@pytest.mark.usefixtures("no_estimate")
def test_the_blocks_of_a_given_model_stay_as_they_are(home):
    model = make_pretrainer(16)
    model.encoder.blocks[0].rematerialize = True
    for given, expected in (({}, True), ({"execution": Execution(rematerialize=False)}, False)):
        copy = kbert.pretrain(home / "records", init=model, dry_run=True, **given, **SHORT).model
        assert copy.encoder.blocks[0].rematerialize is expected and model.encoder.blocks[0].rematerialize
