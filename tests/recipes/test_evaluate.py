"""Scores of a stored model."""

import json

import numpy as np
import pytest
from helpers.run_recipe import read_json, run_recipe
from helpers.tiny_directory import VOCABULARY, sentences, write_table, write_tiny_directory
from helpers.toy_glue import write_toy_glue

import kbert
from kbert import BertTokenizer
from kbert.pipelines.settings import ModelSettings
from kbert.tasks.glue_benchmark.tasks import GLUE_TASKS

pytestmark = pytest.mark.usefixtures("eagerly")

ROWS = sentences(13)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """model/ (a classifier), init/ (no classifier), test.csv."""
    path = tmp_path_factory.mktemp("home")
    write_tiny_directory(path / "init")
    write_tiny_directory(path / "plain", task="classification", num_labels=2)
    settings = ModelSettings(labels=["bad", "good"], sequence_length=9)
    model = kbert.load_pretrained(path / "plain")
    kbert.save_pretrained(model, path / "model", tokenizer=BertTokenizer(VOCABULARY), settings=settings)
    write_table(path / "test.csv", ROWS)
    return path


def _arguments(home, *more):
    model = () if "--model" in more else ("--model", home / "model")
    return (*model, "--data", home / "test.csv", "--text-column", "text", "--label-column", "label", *more)


def test_the_scores_are_those_of_the_answers(home, tmp_path, capsys):
    run_recipe("evaluate", *_arguments(home, "--output", tmp_path / "out", "--batch-size", 4, "--json"))
    scores = read_json(tmp_path / "out" / "metrics.json")
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == scores
    answers = kbert.build_pipeline(kbert.load_pretrained(home / "model")).predict([text for text, _ in ROWS])["label"]
    assert scores["accuracy"] == sum(a == b for a, (_, b) in zip(answers, ROWS, strict=True)) / 13
    assert (scores["examples"], set(scores)) == (13, {"examples", "loss", "accuracy", "macro_f1", "matthews"})
    assert read_json(tmp_path / "out" / "settings.json")["model"] == [str(home / "model")]


def test_a_glue_task(home, tmp_path, capsys):
    write_tiny_directory(tmp_path / "model", task="classification", num_labels=2)  # labels "0" and "1"
    (tmp_path / "glue" / "SST-2").mkdir(parents=True)
    rows = [(text, int(label == "good")) for text, label in ROWS]
    write_table(tmp_path / "glue" / "SST-2" / "dev.tsv", rows, header=("sentence", "label"))
    run_recipe("evaluate", "--model", tmp_path, "--data", tmp_path / "glue", "--task", "SST-2", "--json")
    scores = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(scores) == {"examples", "loss", "accuracy"}
    run_recipe("evaluate", *_arguments(home, "--metrics", "f1", "--json"))
    assert set(json.loads(capsys.readouterr().out.splitlines()[-1])) == {"examples", "loss", "f1"}
    with pytest.raises(SystemExit, match=r"expected a model for SST-2, .*Received: .* \['bad', 'good'\]"):
        run_recipe("evaluate", "--model", home / "model", "--data", tmp_path / "glue", "--task", "SST-2")


def test_both_dev_sets_of_mnli(tmp_path, capsys):
    task = GLUE_TASKS["MNLI"]
    write_toy_glue(tmp_path / "glue")
    write_tiny_directory(tmp_path / "plain", task="classification", num_labels=3)
    settings = ModelSettings(labels=list(task.labels), sequence_length=16, pair=True)
    tokenizer = BertTokenizer(VOCABULARY)
    kbert.save_pretrained(
        kbert.load_pretrained(tmp_path / "plain"), tmp_path / "model", tokenizer=tokenizer, settings=settings
    )
    run_recipe("evaluate", "--model", tmp_path / "model", "--data", tmp_path / "glue", "--task", "MNLI", "--json")
    scores = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(scores) == {"examples", "loss", "accuracy", "accuracy_mm"}
    dev = task.read(tmp_path / "glue", "dev_mm")
    answers = kbert.build_pipeline(kbert.load_pretrained(tmp_path / "model")).predict(dev.columns)["label"]
    assert scores["accuracy_mm"] == np.mean(answers == np.array(task.labels)[dev.labels])


@pytest.mark.parametrize(
    "flags, message",
    [
        (
            ("--model", "{home}/init"),
            "expected a fine-tuned model. Expected a task that is fine-tuned on examples. Received: 'pretraining'",
        ),
        (("--text-pair-column", "label"), "was trained on single texts. Received: pairs of texts"),
        (
            ("--version", "2.0", "--scheme", "bioes"),
            r"options of Classification, .*'scheme': 'bioes', 'version': '2.0'",
        ),
        (("--data", "{home}/none.csv"), "none.csv.*is not a file"),
        (("--label-column", "stars"), "test.csv, line 1: .*missing: .'stars'"),
        (("--data", "{home}/other.csv"), r"other.csv, line 2: .*\['bad', 'good'\]. Received: 'ugly'"),
    ],
)
def test_what_is_wrong_is_named(home, tmp_path, flags, message):
    write_table(home / "other.csv", [("a", "ugly")])
    flags = [flag.format(home=home) for flag in flags]
    with pytest.raises(SystemExit, match=f"error: .*{message}"):
        run_recipe("evaluate", *_arguments(home, *flags, "--output", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "flags, message",
    [(("--text-column", "text"), "reads the files of GLUE"), (("--version", "2.0"), "reads the files of GLUE")],
)
def test_a_glue_task_knows_its_files(home, capsys, flags, message):
    with pytest.raises(SystemExit):
        run_recipe("evaluate", "--model", home / "model", "--data", home, "--task", "SST-2", *flags)
    assert message in capsys.readouterr().err


def test_columns_have_the_defaults_of_the_task(home, capsys):
    run_recipe("evaluate", "--model", home / "model", "--data", home / "test.csv", "--json")
    default = capsys.readouterr().out
    run_recipe("evaluate", *_arguments(home, "--json"))
    assert capsys.readouterr().out == default and json.loads(default.splitlines()[-1])["examples"] == 13


def test_columns_are_those_that_the_model_was_trained_on(home, tmp_path, capsys):
    made_by = {"settings": {"task": "classification", "text": "said", "text_pair": None, "label": "mood"}}
    kbert.save_pretrained(kbert.build_pipeline(kbert.load_pretrained(home / "model")), tmp_path, made_by=made_by)
    trained, other = tmp_path / "trained.csv", home / "test.csv"
    write_table(trained, ROWS, header=("said", "mood"))
    printed = []
    for flags in (("--data", trained), ("--data", other, "--text-column", "text", "--label-column", "label")):
        run_recipe("evaluate", "--model", tmp_path, *flags, "--json")
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    missing = r"test.csv, line 1: .* missing: \['mood'\].* as in the training of the model: --label-column mood$"
    with pytest.raises(SystemExit, match=missing):
        run_recipe("evaluate", "--model", tmp_path, "--data", other, "--text-column", "text")
    with pytest.raises(SystemExit, match=r"missing: \['no'\]\.$"):  # all flags are given
        run_recipe("evaluate", "--model", tmp_path, "--data", other, "--text-column", "no", "--label-column", "label")
