"""Scores of a stored model."""

import json

import numpy as np
import pytest
from helpers.model_settings import settings_of
from helpers.run_recipe import read_json, run_kbert
from helpers.tiny_directory import VOCABULARY, sentences, write_table, write_tiny_directory
from helpers.toy_glue import write_toy_glue

import kbert
from kbert import BertTokenizer
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS

pytestmark = pytest.mark.usefixtures("eagerly")

ROWS = sentences(13)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """model/ (a classifier), init/ (no classifier), test.csv."""
    path = tmp_path_factory.mktemp("home")
    write_tiny_directory(path / "init")
    write_tiny_directory(path / "plain", task="classification", num_labels=2)
    settings = settings_of("classification", 9, labels=["bad", "good"])
    model = kbert.load_pretrained(path / "plain")
    kbert.save_pretrained(model, path / "model", tokenizer=BertTokenizer(VOCABULARY), settings=settings)
    write_table(path / "test.csv", ROWS)
    return path


def _arguments(home, *more, model="model"):
    return (home / model, "--examples", home / "test.csv", *more)


def test_the_scores_are_those_of_the_answers(home, tmp_path, capsys):
    run_kbert("evaluate", *_arguments(home, "--output", tmp_path / "out", "--batch-size", 4, "--json"))
    scores = read_json(tmp_path / "out" / "metrics.json")
    printed = capsys.readouterr().out.splitlines()
    assert json.loads(printed[-1]) == scores
    assert printed[-4].split() == ["precision", "recall", "f1", "examples", "predicted_examples"]
    for line, (label, of_label) in zip(printed[-3:-1], scores["labels"].items(), strict=True):
        name, *values = line.split()
        assert name == label and list(map(float, values)) == pytest.approx(list(of_label.values()), abs=1e-4)
    answers = kbert.build_pipeline(kbert.load_pretrained(home / "model")).predict([text for text, _ in ROWS])["label"]
    assert scores["accuracy"] == sum(a == b for a, (_, b) in zip(answers, ROWS, strict=True)) / 13
    assert (scores["examples"], set(scores)) == (13, {"examples", "loss", "accuracy", "macro_f1", "matthews", "labels"})
    assert read_json(tmp_path / "out" / "settings.json")["pipeline"] == [str(home / "model")]


def test_the_settings_of_an_evaluation_are_a_configuration(home, tmp_path):
    run_kbert("evaluate", "classification", *_arguments(home, "--output", tmp_path / "a", "--metrics", "accuracy"))
    settings = read_json(tmp_path / "a" / "settings.json")
    assert settings["task"]["metrics"] == ["accuracy"] and "labels" not in settings["task"]
    (tmp_path / "config.json").write_text(json.dumps({"task": settings["task"], "examples": settings["examples"]}))
    run_kbert("evaluate", home / "model", "--config", tmp_path / "config.json", "--output", tmp_path / "b")
    assert read_json(tmp_path / "b" / "metrics.json") == read_json(tmp_path / "a" / "metrics.json")


def test_examples_in_memory_are_recorded_by_their_rows(home, tmp_path):
    task = kbert.tasks.Classification()
    pipeline = kbert.build_pipeline(kbert.load_pretrained(home / "model"))
    columns = dict(zip(("text", "label"), map(list, zip(*ROWS, strict=True)), strict=True))
    for number, examples in enumerate((task.read(home / "test.csv"), task.read(ROWS), columns)):
        path = tmp_path / str(number)
        scores = kbert.evaluate(pipeline, task, examples, output=path)
        assert scores["examples"] == 13 and read_json(path / "metrics.json") == scores
        assert read_json(path / "settings.json")["examples"] == (None if number else str(home / "test.csv"))
        assert read_json(path / "inputs.json")["examples"] == {"examples": task.read(ROWS).fingerprint()}


def test_a_glue_task(home, tmp_path, capsys):
    write_tiny_directory(tmp_path / "model", task="classification", num_labels=2)  # labels "0" and "1"
    (tmp_path / "glue" / "SST-2").mkdir(parents=True)
    rows = [(text, int(label == "good")) for text, label in ROWS]
    write_table(tmp_path / "glue" / "SST-2" / "dev.tsv", rows, header=("sentence", "label"))
    run_kbert("evaluate", "glue", tmp_path, "--examples", tmp_path / "glue", "--name", "SST-2", "--json")
    scores = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(scores) == {"examples", "loss", "accuracy", "labels"}
    run_kbert("evaluate", "classification", *_arguments(home, "--metrics", "f1", "--json"))
    assert set(json.loads(capsys.readouterr().out.splitlines()[-1])) == {"examples", "loss", "f1", "labels"}
    with pytest.raises(SystemExit, match=r"expected a model for SST-2, .*Received: .* \['bad', 'good'\]"):
        run_kbert("evaluate", "glue", home / "model", "--examples", tmp_path / "glue", "--name", "SST-2")


def test_both_dev_sets_of_mnli(tmp_path, capsys):
    task = GLUE_TASKS["MNLI"]
    write_toy_glue(tmp_path / "glue")
    write_tiny_directory(tmp_path / "plain", task="classification", num_labels=3)
    settings = settings_of("classification", 16, labels=list(task.labels), pair=True)
    tokenizer = BertTokenizer(VOCABULARY)
    kbert.save_pretrained(
        kbert.load_pretrained(tmp_path / "plain"), tmp_path / "model", tokenizer=tokenizer, settings=settings
    )
    run_kbert("evaluate", "glue", tmp_path / "model", "--examples", tmp_path / "glue", "--name", "MNLI", "--json")
    scores = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(scores) == {"examples", "loss", "accuracy", "accuracy_mm", "labels"}
    dev = task.read(tmp_path / "glue", "dev_mm")
    answers = kbert.build_pipeline(kbert.load_pretrained(tmp_path / "model")).predict(dev.columns)["label"]
    assert scores["accuracy_mm"] == np.mean(answers == np.array(task.labels)[dev.labels])


def test_another_task_than_the_models_is_refused(home):
    with pytest.raises(SystemExit, match="evaluate: expected a span model. Received: a classification model"):
        run_kbert("evaluate", "span", *_arguments(home))


def test_windows_of_long_texts_are_turned_off_or_pooled_otherwise(home, tmp_path, capsys):
    options = {"window_pooling": "max", "doc_stride": 5, "sequence_length": 9}
    kbert.save_pretrained(kbert.build_pipeline(kbert.load_pretrained(home / "model"), **options), tmp_path / "model")
    write_table(tmp_path / "long.csv", [(f"{text} the very . a a a {text}", label) for text, label in ROWS[:4]])
    losses = []
    for flag, pooling in (("stored", "max"), ("mean", "mean"), ("off", None)):
        pipeline = kbert.build_pipeline(tmp_path / "model", window_pooling=pooling)
        losses.append(kbert.evaluate(pipeline, examples=tmp_path / "long.csv")["loss"])
        words = (tmp_path / "model", "--examples", tmp_path / "long.csv", "--window-pooling", flag, "--json")
        for task in ([], ["classification"]):
            run_kbert("evaluate", *task, *words)
            scores = json.loads(capsys.readouterr().out.splitlines()[-1])
            assert scores["loss"] == pytest.approx(losses[-1], abs=1e-5)
    assert len(set(losses)) == 3


def test_what_is_wrong_is_named(home, tmp_path):
    def evaluate(flags, model="model"):
        run_kbert("evaluate", "classification", *_arguments(home, *flags, "--output", tmp_path / "out", model=model))

    with pytest.raises(SystemExit, match="error: .*was trained on single texts. Received: pairs of texts"):
        evaluate(("--text-pair", "label"))
    with pytest.raises(ValueError, match=r"the model decides \['labels', 'window_pooling'\]"):
        fixed = {"text": "text", "window_pooling": "max", "labels": ["good", "bad"]}
        kbert.evaluate(home / "model", fixed, home / "test.csv")
    with pytest.raises(SystemExit, match="error: .*a fine-tuned model. Received: 'pretraining', which has no examples"):
        evaluate((), "init")
    assert not (tmp_path / "out").exists()


def test_columns_are_those_that_the_model_was_trained_on(home, tmp_path, capsys):
    task = {"task": "classification", "text": "said", "text_pair": None, "label": "mood"}
    made_by = {"settings": {"task": task}}
    kbert.save_pretrained(kbert.build_pipeline(kbert.load_pretrained(home / "model")), tmp_path, made_by=made_by)
    trained, other = home / "trained.csv", home / "test.csv"
    write_table(trained, ROWS, header=("said", "mood"))
    printed = []
    for task, flags in (([], ("--examples", trained)), (["classification"], ("--examples", other, "--label", "label"))):
        text = ("--text", "text") if task else ()
        run_kbert("evaluate", *task, tmp_path, *flags, *text, "--json")
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    missing = r"test.csv, line 1: .* missing: \['mood'\].* as in the training: label='mood'$"
    with pytest.raises(SystemExit, match=missing):
        run_kbert("evaluate", "classification", tmp_path, "--examples", other, "--text", "text")
    pipeline = kbert.build_pipeline(tmp_path)
    kbert.save_pretrained(kbert.load_pretrained(home / "init"), tmp_path, overwrite=True)
    assert kbert.evaluate(pipeline, examples=trained)["examples"] == 13  # it knows its columns from when it was loaded
