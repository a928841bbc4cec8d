"""Texts with any number of labels: read, trained, scored and answered."""

import dataclasses

import numpy as np
import pytest
from helpers.tiny_directory import sentences, write_table, write_tiny_directory
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.cli import run_command
from kbert.commands.finetuning import COMMANDS
from kbert.options import Optimization
from kbert.tasks.labelled_text import LabelledText
from kbert.tasks.metrics import MULTI_LABEL_METRICS
from kbert.tasks.scores import compare

TASK = kbert.tasks.Classification(label_separator="|")
ROWS = [
    (text, "|".join(name for name in ("good", "film", "book") if name == label or name in text.split()))
    for text, label in sentences(30)
]


def test_labels_are_read_from_one_column(tmp_path):
    examples = TASK.read(write_table(tmp_path / "a.csv", [("one", "b|a"), ("two", ""), ("three", " a ")]))
    assert examples.label_names == ("a", "b") and examples.multi_label
    np.testing.assert_array_equal(examples.labels, [[1, 1], [0, 0], [1, 0]])
    np.testing.assert_array_equal(examples.take([2, 0]).labels, [[1, 0], [1, 1]])
    assert examples.baseline().tolist() == [1, 0]
    swapped = examples.with_labels(["b", "c", "a"])
    np.testing.assert_array_equal(swapped.labels, [[1, 0, 1], [0, 0, 0], [0, 0, 1]])
    with pytest.raises(ValueError, match=r"a.csv, line 2: expected labels of \['a', 'c'\]. Received: 'b'"):
        examples.with_labels(["a", "c"])
    with pytest.raises(ValueError, match="on or off, 1 or 0"):
        LabelledText(["a"], np.array([[0, 2]], "int32"))
    with pytest.raises(ValueError, match="`label_separator` must not be empty"):
        kbert.tasks.Classification(label_separator="")
    nobody = TASK.read(write_table(tmp_path / "b.csv", [("one", ""), ("two", "|")]))
    with pytest.raises(ValueError, match="expected a text with a label"):
        TASK.settings(nobody)


TABLE = {"text": ["a", "b", "c"], "moods": [[1, 0], [0, 1], [1, 1]]}


@pytest.mark.parametrize("kind", [list, np.array, lambda rows: np.array(rows, bool), lambda rows: np.array(rows, "U1")])
def test_a_table_of_0_and_1_has_named_labels(kind):
    task = kbert.tasks.Classification(label="moods", label_separator="|", labels=["sad", "funny"])
    examples = task.for_training(task.examples(TABLE | {"moods": kind(TABLE["moods"])}))[1]
    assert examples.label_names == ("sad", "funny") and examples.labels.tolist() == TABLE["moods"]
    assert [row["label"] for row in examples] == [["sad"], ["funny"], ["sad", "funny"]]


def test_a_table_of_0_and_1_in_a_file(tmp_path):
    task = kbert.tasks.Classification(label_separator="|", labels=["sad", "funny"])
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": [1, 0]}\n{"text": "b", "label": [false, true]}\n')
    write_table(tmp_path / "a.csv", [("a", "1|0"), ("b", "0|1")])
    for name in ("a.jsonl", "a.csv"):
        assert [row["label"] for row in task.read(tmp_path / name)] == [["sad"], ["funny"]]
        with pytest.raises(
            ValueError, match=rf"{name}, line .*: 'label' is a list of 2 times 0 or 1, but the labels have"
        ):
            TASK.read(tmp_path / name)


def test_a_table_of_0_and_1_without_names_is_an_error():
    task = kbert.tasks.Classification(label="moods", label_separator="|")
    for each, expected in (
        (task, r"row 0: 'moods' is a list of 2 times 0 or 1, but the labels have no names. Received: \[1, 0\]. Name"),
        (kbert.tasks.Classification(label="moods"), "but the labels have no names"),
        (dataclasses.replace(task, labels=["a", "b", "c"]), "but there are 3 labels"),
    ):
        with pytest.raises(ValueError, match=expected):
            each.examples(TABLE)


@pytest.mark.parametrize("rows", [[[0, 1], [3]], [[0], [1]], [["0", "1"], ["2", "0"]]])
def test_lists_of_numbers_that_name_labels_stay_names(rows):
    examples = kbert.tasks.Classification(label_separator="|").examples(list(zip("ab", rows, strict=True)))
    named = [set(map(int, row["label"])) for row in examples]
    assert named == [set(map(int, row)) for row in rows]
    task = kbert.tasks.Classification(label_separator="|", labels=["0", "1"])
    assert task.examples([("a", ["0", "1"])]).labels.tolist() == [[1, 1]]


def test_a_column_for_each_label(tmp_path):
    task = kbert.tasks.Classification(label=["toxic", "obscene"])
    rows = [("one", "1", "0"), ("two", "False", "true"), ("three", "0.0", "1.0")]
    examples = task.read(write_table(tmp_path / "a.csv", rows, ("text", "toxic", "obscene")))
    assert examples.label_names == ("toxic", "obscene") and examples.labels.tolist() == [[1, 0], [0, 1], [0, 1]]
    assert task.metrics == ("micro_f1", "macro_f1", "subset_accuracy")
    frame = {"obscene": [0, True, 1.0], "text": ["one", "two", "three"], "toxic": np.array([1, 0, 0])}
    assert task.examples(frame).fingerprint() == task.examples(rows).fingerprint() == examples.fingerprint()
    swapped = dataclasses.replace(task, labels=["obscene", "toxic"])
    assert swapped.for_training(swapped.examples(rows))[1].labels.tolist() == [[0, 1], [1, 0], [1, 0]]
    wrong = write_table(tmp_path / "b.csv", [("one", "1", "0"), ("two", "-1", "")], ("text", "toxic", "obscene"))
    with pytest.raises(ValueError, match="b.csv, line 3: the label 'toxic' must be 0 or 1. Received: '-1'"):
        task.read(wrong)
    wrong_inputs(
        lambda fields: kbert.tasks.Classification(**fields),
        ({"label": ["a", "a"]}, "`label` must be different strings, at least one"),
        ({"label": []}, "`label` must be different strings, at least one"),
        ({"label": ["a", "b"], "label_separator": "|"}, "`label_separator` is for a single column of labels"),
    )


def test_scores_by_hand():
    labels = np.array([[1, 0], [1, 1], [0, 0]], "int32")
    examples = LabelledText(["a", "b", "c"], labels, label_names=("x", "y"))
    probabilities = np.array([[0.9, 0.2], [0.4, 0.8], [0.3, 0.6]])
    scores = compare(examples, probabilities, TASK.metrics)
    right = np.array([[0.9, 0.8], [0.4, 0.8], [0.7, 0.4]])
    assert scores["loss"] == pytest.approx(-np.log(right).mean())
    assert scores["micro_f1"] == pytest.approx(2 * 2 / (3 + 3))
    assert scores["macro_f1"] == pytest.approx((2 / 3 + 2 / 3) / 2)
    assert scores["subset_accuracy"] == pytest.approx(1 / 3)
    assert compare(examples, probabilities, ["subset_accuracy"], [0.35, 0.7])["subset_accuracy"] == 1.0
    for metric in MULTI_LABEL_METRICS.values():
        with pytest.raises(ValueError, match="tables .* same length, at least 1. Received: shapes"):
            metric([0, 1], [0, 1])


@pytest.fixture(scope="module")
def init(tmp_path_factory):
    return write_tiny_directory(tmp_path_factory.mktemp("home") / "init", dropout=0.0)


@pytest.fixture(scope="module")
def run(init, tmp_path_factory):
    settings = {"batch_size": 8, "sequence_length": 9, "learning_rate": 1e-2, "steps": 30, "evaluate_every": 30}
    return kbert.finetune(
        init,
        TASK,
        ROWS,
        ROWS,
        tmp_path_factory.mktemp("runs") / "run",
        **settings,
        optimization=Optimization(accumulate=2),
    )


@pytest.mark.usefixtures("eagerly")
def test_fine_tuning_evaluation_and_answers(init, run):
    dev, constant = run.metrics["dev"], run.metrics["constant_answer"]
    assert set(constant) == {"micro_f1", "macro_f1", "subset_accuracy"}
    assert dev["micro_f1"] > constant["micro_f1"]
    model = kbert.load_pretrained(run.path)
    assert model.multi_label and model.num_labels == 3
    pipeline = kbert.build_pipeline(model)
    texts = [text for text, _ in ROWS]
    assert kbert.evaluate(pipeline, TASK, ROWS)["loss"] == pytest.approx(dev["loss"], rel=1e-4)
    probabilities = pipeline.predict(texts, verbose=0)["probabilities"]
    examples = TASK.examples(ROWS).with_labels(pipeline.settings()["labels"])
    assert compare(examples, probabilities.astype("float64"), ["micro_f1"])["micro_f1"] == dev["micro_f1"]
    strict = kbert.build_pipeline(model, thresholds=[0.999999] * 3)
    assert kbert.evaluate(strict, TASK, ROWS)["micro_f1"] < dev["micro_f1"]
    with pytest.raises(ValueError, match="trained on several labels a text.* Received: one label a text"):
        kbert.evaluate(pipeline, kbert.tasks.Classification(), sentences(6))
    with pytest.raises(ValueError, match="`class_weight` is for texts with one label each"):
        kbert.finetune(init, TASK, ROWS, steps=1, sequence_length=9, class_weight="balanced")


@pytest.mark.usefixtures("eagerly")
def test_label_columns_are_trained_evaluated_and_predicted(init, tmp_path):
    """From the command line, on files; the model remembers the columns, and scores a table of 0 and 1 as well."""
    header = ("text", "good", "film")
    rows = [(text, int("good" in labels), int("film" in labels)) for text, labels in ROWS]
    table = write_table(tmp_path / "train.csv", rows, header)
    given = (
        "--source",
        init,
        "--train",
        table,
        "--dev",
        table,
        "--label",
        "good",
        "film",
        "--output",
        tmp_path / "run",
    )
    steps = ("--steps", 2, "--batch-size", 8, "--sequence-length", 9)
    run = run_command(COMMANDS["finetune"], ["classification", *map(str, (*given, *steps))], "kbert finetune")
    assert run.pipeline.answers.labels == ("good", "film") and run.pipeline.model.multi_label
    scores = kbert.evaluate(tmp_path / "run", examples=table)
    assert scores["loss"] == pytest.approx(run.metrics["dev"]["loss"], rel=1e-5)
    moods = {"text": [row[0] for row in rows], "moods": [row[1:] for row in rows]}
    task = {"label": "moods", "label_separator": "|"}
    assert kbert.evaluate(run.pipeline, task, moods)["loss"] == pytest.approx(scores["loss"], rel=1e-5)
    assert kbert.finetuning.predict_file(run.pipeline, table, tmp_path / "answers.jsonl") == len(rows)


def test_labels_of_ones_own_are_in_their_order():
    """They are those of the model, whatever labels the examples have, and one that is missing there is an error."""
    task = kbert.tasks.Classification(labels=["good", "bad", "so-so"])
    done, train = task.for_training(task.examples([("a", "bad"), ("b", "good")]))
    assert done.labels == ("good", "bad", "so-so") and train.labels.tolist() == [1, 0]
    assert done.settings(train)["num_labels"] == 3
    with pytest.raises(ValueError, match=r"row 1: expected a label of \['good', 'bad', 'so-so'\]. Received: 'dull'"):
        task.for_training(task.examples([("a", "bad"), ("b", "dull")]))
    tagger = kbert.tasks.Tagging(labels=["O", "B-PER", "I-PER"])
    words = [["Ada", "spoke"]]
    assert tagger.for_training(tagger.examples({"words": words, "tags": [["B-PER", "O"]]}))[0].labels[1] == "B-PER"
    with pytest.raises(ValueError, match="expected one of .*'I-PER'.*Received: 'B-LOC'"):
        tagger.for_training(tagger.examples({"words": words, "tags": [["B-LOC", "O"]]}))


def test_pairs_are_found_in_the_examples():
    task = kbert.tasks.Classification(text_pair="text_pair")
    rows = [("a", "b", "yes"), ("c", "d", "no")]
    assert not task.pair and task.for_training(task.examples(rows))[0].pair
    single = kbert.tasks.Classification(pair=True)
    with pytest.raises(ValueError, match="Classification: `pair` needs a second text in the examples"):
        single.for_training(single.examples([("a", "yes"), ("b", "no")]))
