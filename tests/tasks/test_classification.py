"""Texts with any number of labels: read, trained, scored and answered."""

import numpy as np
import pytest
from helpers.tiny_directory import sentences, write_table, write_tiny_directory

import kbert
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
        init, TASK, ROWS, ROWS, tmp_path_factory.mktemp("runs") / "run", **settings, optimization={"accumulate": 2}
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
