"""Metrics: hand-made cases, the definitions written out, and scikit-learn and SciPy where they are installed."""

import math

import numpy as np
import pytest

import kbert
from kbert.tasks import metrics
from kbert.tasks.metrics import CLASS_METRICS, MULTI_LABEL_METRICS, NUMBER_METRICS


def _classes(seed, classes=2, n=41):
    random = np.random.default_rng(seed)
    truth = random.integers(0, classes, n)
    return truth, np.where(random.random(n) < 0.6, truth, random.integers(0, classes, n))


def _numbers(seed, n=37):
    random = np.random.default_rng(seed)
    truth = np.round(random.random(n) * 5, 1)  # with ties
    return truth, np.round(truth + random.normal(size=n), 1)


def test_hand_made_classes():
    truth, guess = [1, 1, 1, 0, 0], [1, 0, 1, 1, 0]  # 2 true positives, 1 false, 1 missed, 1 true negative
    assert metrics.accuracy(truth, guess) == 3 / 5
    assert metrics.f1(truth, guess) == 2 / 3
    assert metrics.f1(truth, guess, positive=0) == 1 / 2
    assert metrics.macro_f1(truth, guess) == pytest.approx(7 / 12)
    assert metrics.matthews(truth, guess) == pytest.approx((2 * 1 - 1 * 1) / math.sqrt(3 * 3 * 2 * 2))


def test_hand_made_scores_by_label():
    truth, guess = [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 0, 0]
    expected = {
        "a": {"precision": 2 / 4, "recall": 2 / 3, "f1": 4 / 7, "examples": 3, "predicted_examples": 4},
        "b": {"precision": 1 / 2, "recall": 1 / 2, "f1": 1 / 2, "examples": 2, "predicted_examples": 2},
        "c": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "examples": 1, "predicted_examples": 0},
        "d": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "examples": 0, "predicted_examples": 0},
    }
    tables = [np.eye(4, dtype="int32")[series] for series in (truth, guess)]
    for series in ((truth, guess), tables):
        scores = metrics.scores_by_label(*series, list("abcd"))
        assert {name: pytest.approx(values) for name, values in scores.items()} == expected
    several = metrics.scores_by_label([[1, 1], [0, 1]], [[1, 0], [1, 1]], ("x", "y"))
    assert [several["x"][name] for name in ("precision", "recall")] == [1 / 2, 1]
    assert [several["y"][name] for name in ("precision", "recall")] == [1, 1 / 2]


def test_hand_made_numbers():
    assert metrics.pearson([1, 2, 3], [2, 4, 6]) == pytest.approx(1)
    assert metrics.pearson([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert metrics.spearman([1, 2, 3, 4], [1, 10, 100, 1000]) == pytest.approx(1)
    assert metrics.spearman([1, 2, 3], [1, 1, 2]) == pytest.approx(math.sqrt(3) / 2)  # ranks 1.5, 1.5, 3
    assert metrics.mean_squared_error([1, 2], [1, 4]) == 2
    assert metrics.mean_absolute_error([1, 2], [1, -4]) == 3


def test_where_a_metric_is_undefined_it_is_zero():
    assert metrics.f1([0, 0], [0, 0]) == 0.0
    assert metrics.f1([1, 1], [0, 0]) == 0.0
    assert metrics.matthews([0, 1, 1], [1, 1, 1]) == 0.0
    assert metrics.pearson([1, 2, 3], [0.1, 0.1, 0.1]) == 0.0
    assert metrics.spearman([2, 2], [1, 5]) == 0.0


@pytest.mark.parametrize("name", sorted(CLASS_METRICS | NUMBER_METRICS))
def test_series_must_match(name):
    for truth, guess in (([], []), ([1, 2], [1]), ([[1]], [[1]])):
        with pytest.raises(ValueError, match="same length, at least 1. Received: shapes"):
            getattr(metrics, name)(truth, guess)


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(10))
def test_scikit_learn_agrees(seed):
    sklearn = pytest.importorskip("sklearn.metrics")
    truth, guess = _classes(seed)
    assert metrics.accuracy(truth, guess) == pytest.approx(sklearn.accuracy_score(truth, guess), abs=1e-12)
    assert metrics.f1(truth, guess) == pytest.approx(sklearn.f1_score(truth, guess), abs=1e-12)
    for classes in (2, 3, 5):
        truth, guess = _classes(seed, classes)
        assert metrics.macro_f1(truth, guess) == pytest.approx(
            sklearn.f1_score(truth, guess, average="macro"), abs=1e-12
        )
        assert metrics.matthews(truth, guess) == pytest.approx(sklearn.matthews_corrcoef(truth, guess), abs=1e-12)


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(10))
def test_scipy_agrees(seed):
    stats = pytest.importorskip("scipy.stats")
    truth, guess = _numbers(seed)
    assert metrics.pearson(truth, guess) == pytest.approx(stats.pearsonr(truth, guess)[0], abs=1e-12)
    assert metrics.spearman(truth, guess) == pytest.approx(stats.spearmanr(truth, guess)[0], abs=1e-12)


@pytest.mark.parametrize("name", ["Classification", "Regression", "MultipleChoice", "Tagging", "SpanExtraction"])
def test_a_task_knows_its_metrics(name):
    task = getattr(kbert.tasks, name)
    first = task().metrics[0]
    assert task(metrics=first).metrics == task(metrics=[first]).metrics == (first,)
    for wrong in ("nope", (first, "nope"), ()):
        with pytest.raises(ValueError, match=f"{name}: `metrics` must be names of .*{first}.* Received: "):
            task(metrics=wrong)


@pytest.mark.parametrize(
    "name, known, wrong",
    [
        ("Classification", CLASS_METRICS, "pearson"),
        ("Regression", NUMBER_METRICS, "accuracy"),
        ("MultipleChoice", ["accuracy"], "f1"),
    ],
)
def test_a_task_takes_only_its_own_metrics(name, known, wrong):
    task = getattr(kbert.tasks, name)
    assert task(metrics=list(known)).metrics == tuple(known)
    with pytest.raises(ValueError) as error:
        task(metrics=("accuracy", wrong))
    assert f"{name}: `metrics` must be names of {list(known)}, at least one. Received: " in str(error.value)


def test_f1_is_of_two_labels_the_second_of_which_is_positive():
    task = kbert.tasks.Classification(metrics="f1")
    three = task.examples([("a", 0), ("b", 1), ("c", 2)])
    with pytest.raises(ValueError, match=r"'f1' is of two labels, here there are 3, \['0', '1', '2'\]: use 'macro_f1'"):
        task.for_model(three, task.settings(three))
    assert kbert.tasks.Classification().for_model(three, task.settings(three)) is three
    two = task.examples([("a", "ham"), ("b", "spam"), ("c", "spam")])
    assert task.baseline_scores(two.baseline(), two) == {"f1": pytest.approx(0.8)}
    other = two.with_labels(["spam", "ham"])
    assert task.settings(other)["labels"] == ["spam", "ham"]
    assert task.baseline_scores(other.baseline(), other) == {"f1": 0.0}


def test_metrics_of_one_label_and_of_several():
    with pytest.raises(ValueError, match=r"\['micro_f1', 'macro_f1', 'subset_accuracy'\].* Received: \('accuracy',\)"):
        kbert.tasks.Classification(label_separator="|", metrics="accuracy")
    assert set(metrics.LOWER_IS_BETTER) == {name for name in NUMBER_METRICS if name.endswith("error")}
    for labels, known in ((["1"], CLASS_METRICS), ([["1"]], MULTI_LABEL_METRICS), ([1.5], NUMBER_METRICS)):
        assert metrics.metrics_of(np.array(labels, "float32" if labels == [1.5] else "int32")) is known
