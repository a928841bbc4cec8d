"""What TensorBoard shows of a classifier and of a regressor: the right examples in the right order."""

import numpy as np
import pytest
from helpers.shown_text import HOSTILE, shown_as, shown_cells

from kbert.inspection.examples.classification_views import MOST_EXAMPLES, label_views, multi_label_views
from kbert.inspection.examples.number_views import number_views
from kbert.inspection.markdown import escape

PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.05, 0.9, 0.05], [0.3, 0.31, 0.39], [0.0, 0.5, 0.5]])
LABELS = [0, 0, 2, 2, 0]


def views_of(probabilities, labels, names, texts):
    views = label_views(probabilities, labels, names, ["text"], lambda row: [escape(texts[row])])
    return {view.tag.removeprefix("predictions/"): view.content for view in views}


def test_the_worst_and_the_surest_errors():
    views = views_of(PROBABILITIES, LABELS, ["a", "b", "c"], "vwxyz")
    assert shown_cells(views["confidently wrong"]) == [
        ["", "gold", "predicted", "text"],
        ["✗", "c (5.0%)", "b (90%)", "x"],
        ["✗", "a (10%)", "c (60%)", "w"],
        ["✗", "a (0%)", "b (50%)", "z"],
    ]
    worst = shown_cells(views["worst"])
    assert [row[-1] for row in worst[1:]] == list("zxwyv") and worst[-1][:3] == ["✓", "a (70%)", "a (70%)"]
    page = views["by label"]
    assert page.startswith("5 held-out examples, accuracy 40%, expected calibration error ")
    assert ["a", "100%", "33%", "50%", "3", "1"] in shown_cells(page)
    assert ["a", "**1**", "1", "1"] in shown_cells(page)
    assert views["expected calibration error"] == pytest.approx((0.3 + 0.6 + 0.9 + 0.61 + 0.5) / 5)
    assert views["confusion matrix"].dtype == views["calibration"].dtype == np.uint8


def test_two_labels_have_one_table_of_errors():
    views = views_of([[0.9, 0.1], [0.2, 0.8]], [0, 1], ["neg", "pos"], "ab")
    assert "worst" not in views and views["confidently wrong"] == "No held-out example is predicted wrongly."
    assert views["expected calibration error"] == pytest.approx(0.15)


def test_tables_are_bounded_and_texts_stay_text():
    rng = np.random.default_rng(0)
    names = [*HOSTILE, *(f"n{n}" for n in range(30))]
    probabilities = rng.dirichlet(np.ones(len(names)), 200)
    texts = [HOSTILE[n % len(HOSTILE)] for n in range(200)]
    views = views_of(probabilities, rng.integers(0, len(names), 200), names, texts)
    for name in ("confidently wrong", "worst"):
        cells = shown_cells(views[name])
        assert len(cells) == 1 + MOST_EXAMPLES
        assert {row[-1] for row in cells[1:]} <= {shown_as(text) for text in HOSTILE}
    assert "(20 of 37 labels, those with the most errors)" in views["by label"]
    shown_cells(views["by label"])


def test_several_labels_a_text():
    probabilities = [[0.9, 0.2, 0.1], [0.4, 0.8, 0.6], [0.3, 0.6, 0.2]]
    labels, names, texts = [[1, 0, 0], [1, 1, 0], [0, 0, 0]], ["a|b", "*c*", "never"], ["x", HOSTILE[0], "z"]
    arguments = (labels, names, [0.5, 0.7, 0.5], ["text"], lambda row: [escape(texts[row])])
    views = {
        view.tag.removeprefix("predictions/"): view.content for view in multi_label_views(probabilities, *arguments)
    }
    assert views["by label"].startswith("3 held-out examples, all labels right in 67%, calibration error ")
    assert shown_cells(views["by label"]) == [
        ["label", "precision", "recall", "F1", "examples", "predicted"],
        ["a|b", "100%", "50%", "67%", "2", "1"],
        ["*c*", "100%", "100%", "100%", "1", "1"],
        ["never", "0%", "–", "0%", "0", "1"],
    ]
    assert shown_cells(views["worst"]) == [
        ["", "gold", "predicted", "text"],
        ["✗", "a|b (40%), *c* (80%)", "*c* (80%), never (60%)", shown_as(HOSTILE[0])],
        ["✓", "–", "–", "z"],
        ["✓", "a|b (90%)", "a|b (90%)", "x"],
    ]
    # Bins of a tenth: 0.1 0.2 0.2 0.3 0.6 0.6 and 0.4 0.8 0.9, of which the last three are on.
    gaps = [0.1, 0.2, 0.2, 0.3, 0.6, 0.6, 0.4 - 1, 0.8 - 1, 0.9 - 1]
    assert views["expected calibration error"] == pytest.approx(np.abs(gaps).mean())
    assert views["calibration"].dtype == np.uint8


def test_many_labels_a_text_are_bounded():
    rng = np.random.default_rng(0)
    labels, names = np.ones((30, 40), int), [f"n{n}" for n in range(40)]
    views = multi_label_views(rng.random((30, 40)), labels, names, 0.5, ["text"], lambda row: [str(row)])
    assert (
        "(20 of 40 labels, those with the most errors)" in views[0].content and len(shown_cells(views[0].content)) == 21
    )
    worst = shown_cells(views[3].content)
    assert len(worst) == 1 + MOST_EXAMPLES and all(row[1].endswith(", 32 more") for row in worst[1:])


def test_numbers():
    texts = [*HOSTILE, *"abcdefgh"]
    labels = np.arange(len(texts), dtype="float64")
    predictions = labels + np.where(labels == 3, -9.0, 0.125)
    views = number_views(predictions, labels, ["text"], lambda row: [escape(texts[row])])
    views = {view.tag.removeprefix("predictions/"): view.content for view in views}
    worst = shown_cells(views["worst"])
    assert worst[1] == ["3", "-6", "-9", shown_as(HOSTILE[3])]
    assert worst[2] == ["0", "0.125", "+0.125", shown_as(HOSTILE[0])] and len(worst) == 11
    assert views["residuals"].startswith("15 held-out examples")
    assert ["all", "-0.483", "0.717", "2.33", "15"] in shown_cells(views["residuals"])
    assert views["scatter plot"].ndim == views["residual histogram"].ndim == 3
