"""kbert.finetune and labels: factors of classes; from a head with labels which one goes on, in which order."""

import dataclasses

import numpy as np
import pytest
from helpers.at_step import Killed, killed_at
from helpers.run_eagerly import run_eagerly
from helpers.run_recipe import read_json
from helpers.slow_but import slow_but
from helpers.tiny_directory import sentences
from helpers.tiny_finetuning import DEV, NO_DEV, QUICK, ROWS, TASK, same, start
from helpers.wrong_values import wrong_inputs

import kbert

SEVERAL = kbert.tasks.Classification(label_separator="|")
WORDS = ("good", "film", "book")
MANY = [(text, "|".join(word for word in WORDS if word in text.split())) for text, _ in sentences(30)]
SINGLE = [(text, WORDS[n % 3]) for n, (text, _) in enumerate(ROWS)]
TAGGED = [{"words": ["the", "film"], "tags": ["O", "B-X"]}, {"words": ["a", "book"], "tags": ["O", "B-Y"]}]


@pytest.fixture(autouse=True, scope="module")
def op_by_op():
    with run_eagerly():
        yield


SOURCES = ["directory", "pipeline", "model"]


@pytest.fixture(params=SOURCES)
def stored(request, init, tmp_path):
    """Function (task, labels, options) → source of a fine-tuning, the weights of its head."""

    def make(task, labels, **options):
        own = {name: options.pop(name) for name in ("multi_label",) if name in options}
        model = kbert.load_pretrained(init, task, num_labels=len(labels), **own)
        pipeline = kbert.build_pipeline(model, labels=labels, sequence_length=9, **options)
        kbert.save_pretrained(pipeline, tmp_path / "it", overwrite=True)
        loaded = kbert.load_pretrained(tmp_path / "it")
        source = {"directory": tmp_path / "it", "pipeline": pipeline, "model": loaded}[request.param]
        return source, head_of(model)

    return make


# With all three sources the other tests see which head goes on, with which labels.
from_a_directory = pytest.mark.parametrize("stored", slow_but(["directory"], SOURCES), indirect=True)


def head_of(model):
    return [v.numpy() for v in model.weights if "_head/" in v.path]


def goes_on(work, head):
    return all(np.array_equal(a, b) for a, b in zip(head_of(work.pipeline.model), head, strict=True))


def names_of(work, examples):
    return [work.pipeline.answers.labels[n] for n in examples.labels]


def test_a_head_with_the_same_labels_goes_on_in_its_order(stored):
    labels = ["good", "bad"]
    source, head = stored("classification", labels)
    work = start(source, TASK, ROWS, DEV, more_dev={"_more": ROWS})
    assert work.pipeline.answers.labels == tuple(labels) and goes_on(work, head)
    rows = {"train": (work.train, ROWS), "dev": (work.dev[""], DEV), "more": (work.dev["_more"], ROWS)}
    for examples, given in rows.values():
        assert names_of(work, examples) == [label for _, label in given]
    data = TASK.training_data(work.pipeline, work.train, class_weight={"bad": 3.0}, batch_size=8, padding="longest")
    _, ids, factors = next(iter(data.make_dataset()))
    np.testing.assert_array_equal(factors["logits"], np.where(ids["logits"].numpy() == labels.index("bad"), 3.0, 1.0))


def test_a_head_with_other_labels_is_new(stored, caplog):
    for labels in (["fine", "poor"], ["bad", "good", "so so"]):
        source, head = stored("classification", labels)
        caplog.clear()
        work = start(source, TASK, ROWS, DEV)
        assert work.pipeline.answers.labels == ("bad", "good")
        assert len(labels) == 3 or not goes_on(work, head)
        assert "classifier_head: newly initialised" in caplog.text


def test_f1_of_three_labels_is_refused_before_training(init, caplog):
    task = kbert.tasks.Classification(metrics=("f1", "accuracy"))
    for dev in (None, SINGLE[:9]):
        with pytest.raises(ValueError, match="'f1' is of two labels, here there are 3, .'book', 'film', 'good'.: use"):
            start(init, task, SINGLE, dev)
    pipeline = kbert.build_pipeline(kbert.load_pretrained(init, "classification", num_labels=3), labels=list(WORDS))
    with pytest.raises(ValueError, match=r"'f1' is of two labels, here there are 3"):
        kbert.evaluate(pipeline, task, SINGLE)


@pytest.mark.parametrize("labels", [["0", "1"], ["LABEL_0", "LABEL_1"]])
def test_a_head_with_default_names_goes_on(stored, labels, caplog):
    source, head = stored("classification", labels)
    caplog.clear()
    work = start(source, TASK, ROWS)
    assert work.pipeline.answers.labels == ("bad", "good") and goes_on(work, head)
    assert "classifier_head: newly initialised" not in caplog.text


@from_a_directory
def test_tags_are_labels_too(stored):
    task = kbert.tasks.Tagging()
    tags = list(start(stored("tagging", ["a", "b"])[0], task, TAGGED).pipeline.answers.labels)
    source, head = stored("tagging", tags[::-1])
    work = start(source, task, TAGGED, TAGGED)
    assert list(work.pipeline.answers.labels) == tags[::-1] and goes_on(work, head)
    others = stored("tagging", [f"{tag}-other" for tag in tags])
    work = start(others[0], task, TAGGED)
    assert list(work.pipeline.answers.labels) == tags and not goes_on(work, others[1])


@from_a_directory
def test_one_label_a_text_from_a_multi_label_model_and_the_reverse(stored):
    """The head goes on with the same labels, without thresholds; the given model stays what it is."""
    source, head = stored("classification", WORDS, multi_label=True, thresholds=[0.3, 0.4, 0.5])
    work = start(source, kbert.tasks.Classification(), SINGLE)
    assert not work.pipeline.model.multi_label and "thresholds" not in work.pipeline.settings()
    assert work.pipeline.answers.labels == WORDS and goes_on(work, head)
    again = kbert.finetune(source, kbert.tasks.Classification(), SINGLE, **(NO_DEV | {"steps": 1}))
    assert np.isfinite(again.history[-1]["loss"])
    source, head = stored("classification", WORDS)
    work = start(source, SEVERAL, MANY)
    assert work.pipeline.model.multi_label and goes_on(work, head)
    assert not getattr(getattr(source, "model", source), "multi_label", False)


def test_thresholds_stay_with_their_labels_and_go_with_others(stored):
    source, head = stored("classification", WORDS, multi_label=True, thresholds=[0.3, 0.4, 0.5])
    work = start(source, SEVERAL, MANY)
    assert work.pipeline.answers.labels == WORDS and goes_on(work, head)
    assert work.pipeline.answers.thresholds == (0.3, 0.4, 0.5)
    for names in ({"good": "x", "film": "y", "book": "z"}, {"book": "good"}):
        rows = [(text, "|".join(sorted({names.get(one, one) for one in label.split("|")}))) for text, label in MANY]
        work = start(source, SEVERAL, rows)
        assert set(work.pipeline.answers.labels) == {names.get(word, word) for word in WORDS}
        assert work.pipeline.answers.thresholds is None


def test_thresholds_of_the_task_replace_those_of_the_source(stored):
    for own in ({}, {"thresholds": [0.3, 0.4, 0.5]}):
        source, head = stored("classification", WORDS, multi_label=True, **own)
        task = kbert.tasks.Classification(label_separator="|", thresholds=(0.2, 0.6, 0.7))
        work = start(source, task, MANY)
        assert work.pipeline.answers.labels == WORDS and goes_on(work, head)
        assert work.pipeline.answers.thresholds == (0.2, 0.6, 0.7)  # in the order of the model's labels
    with_labels = dataclasses.replace(task, labels=WORDS[::-1])
    work = start(source, with_labels, MANY)
    assert work.pipeline.answers.labels == WORDS and goes_on(work, head)
    assert work.pipeline.answers.thresholds == (0.7, 0.6, 0.2)
    with pytest.raises(ValueError, match="thresholds"):
        start(source, dataclasses.replace(with_labels, thresholds=(0.2, 0.6)), MANY)


@pytest.mark.slow  # without labels of its own: test_finetune.py
def test_a_run_whose_head_goes_on_in_its_own_order_is_resumed_exactly(init, tmp_path):
    short = QUICK | {"steps": 4, "evaluate_every": 4, "checkpoint_every": 2}
    stopping = {"callbacks": [killed_at(3)]}
    model = kbert.load_pretrained(init, "classification", num_labels=2)
    kbert.save_pretrained(kbert.build_pipeline(model, labels=["good", "bad"], sequence_length=9), tmp_path / "it")
    whole = kbert.finetune(tmp_path / "it", TASK, ROWS, DEV, tmp_path / "whole", **short)
    with pytest.raises(Killed):
        kbert.finetune(
            tmp_path / "it",
            TASK,
            ROWS,
            DEV,
            tmp_path / "run",
            **short | stopping,
        )
    assert kbert.load_pretrained(tmp_path / "run").pretrained.settings.task.labels == ("good", "bad")
    resumed = kbert.finetune(tmp_path / "it", TASK, ROWS, DEV, tmp_path / "run", **short)
    assert same(resumed.pipeline.model.get_weights(), whole.pipeline.model.get_weights())
    assert resumed.metrics["dev"] == whole.metrics["dev"]
    again = kbert.build_pipeline(kbert.load_pretrained(whole.path))
    assert again.answers.labels == ("good", "bad")
    assert kbert.evaluate(again, TASK, DEV)["loss"] == pytest.approx(whole.metrics["dev"]["loss"], rel=1e-4)


def test_balanced_classes_weigh_the_same(init):
    from kbert.tasks.training_data import example_weights

    work = start(init, TASK, ROWS)
    factors = example_weights("balanced", work.pipeline, work.train.labels)
    sums = [factors[work.train.labels == n].sum() for n in (0, 1)]
    assert sums == pytest.approx([15, 15])
    _, _, given = next(
        iter(
            work.task.training_data(
                work.pipeline, work.train, class_weight="balanced", batch_size=30, padding="longest"
            ).make_dataset()
        )
    )
    assert sorted(given["logits"].numpy().tolist()) == pytest.approx(sorted(factors.tolist()))


def test_balanced_classes_weigh_the_same_in_windows(init):
    task = kbert.tasks.Classification(window_pooling="mean", doc_stride=2)
    rows = [("the film is good . " * 4, "good"), ("a bad film", "bad")]
    work = start(init, task, rows, sequence_length=7)
    data = work.task.training_data(work.pipeline, work.train, class_weight="balanced", batch_size=8, padding="longest")
    windows = data.windows
    assert windows > 3
    batches = data.make_dataset().unbatch().take(windows)  # an epoch
    totals = np.zeros(2)
    for _, ids, factors in batches.as_numpy_iterator():
        totals[ids["logits"]] += factors["logits"]
    assert totals == pytest.approx([windows / 2] * 2)


def test_a_wrong_class_weight_leaves_nothing_behind(init, tmp_path):
    wrong_inputs(
        lambda wrong: kbert.finetune(init, TASK, ROWS, output=tmp_path / "run", class_weight=wrong, **NO_DEV),
        ({"fine": 2.0}, r"for the labels \['bad', 'good'\], or the classes 0 to 1. Received: 'fine'"),
        ("balance", "`class_weight` must be 'balanced', a dict or None. Received: 'balance'"),
    )
    assert not (tmp_path / "run").exists()


def test_keys_and_factors_of_class_weights_are_those_of_a_pipeline(init, tmp_path):
    stars = [(text, {"good": "2", "bad": "1"}[label]) for text, label in ROWS]
    expected = r"finetune: expected strings as keys of `class_weight`.*the label '1'; write \{\"1\": 5\.0\}"
    with pytest.raises(ValueError, match=expected):
        kbert.finetune(init, TASK, stars, class_weight={1: 5.0}, **NO_DEV)
    weights = {"class_weight": {"1": np.float32(5.0)}}
    kbert.finetune(init, TASK, stars, output=tmp_path / "run", **weights, **NO_DEV | {"steps": 1})
    assert read_json(tmp_path / "run" / "settings.json")["class_weight"] == {"1": 5.0}
    regression = kbert.tasks.Regression()
    with pytest.raises(ValueError, match="`class_weight` is for models with labels. Received: 'balanced'"):
        kbert.finetune(init, regression, [(text, "1.5") for text, _ in ROWS], class_weight="balanced", **NO_DEV)
