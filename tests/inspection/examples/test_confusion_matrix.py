"""Labels against predictions: counts, precision, recall, the table and the picture."""

import numpy as np
import pytest
from helpers.picture_pixels import pixels_of
from helpers.shown_text import HOSTILE, shown_as, shown_cells

from kbert.inspection.examples.confusion_matrix import OTHERS, ConfusionMatrix
from kbert.inspection.examples.label_scores import LabelScores

LABELS, PREDICTIONS = [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 0, 0]
NAMES = ["neg", "pos", "other", "never"]


def test_counts():
    matrix = ConfusionMatrix.from_predictions(LABELS, PREDICTIONS, NAMES)
    assert matrix.counts.tolist() == [[2, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert shown_cells(matrix.table()) == [
        ["gold ↓ predicted →", "neg", "pos", "other", "never"],
        ["neg", "**2**", "1", "·", "·"],
        ["pos", "1", "**1**", "·", "·"],
        ["other", "1", "·", "**0**", "·"],
        ["never", "·", "·", "·", "**0**"],
    ]


def test_precision_and_recall():
    scores = LabelScores.from_predictions(LABELS, PREDICTIONS, 4)
    np.testing.assert_allclose(scores.precision, [2 / 4, 1 / 2, np.nan, np.nan])
    np.testing.assert_allclose(scores.recall, [2 / 3, 1 / 2, 0, np.nan])
    np.testing.assert_allclose(scores.f1, [4 / 7, 1 / 2, 0, np.nan])
    assert scores.errors.tolist() == [3, 2, 1, 0]
    assert shown_cells(scores.table(NAMES, [2, 0])) == [
        ["label", "precision", "recall", "F1", "examples", "predicted"],
        ["other", "–", "0%", "0%", "1", "0"],
        ["neg", "50%", "67%", "57%", "3", "4"],
    ]


def test_scores_agree_with_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    labels, predictions = np.random.default_rng(5).integers(0, 6, [2, 200])
    scores = LabelScores.from_predictions(labels, predictions, 6)
    expected = metrics.precision_recall_fscore_support(labels, predictions)
    np.testing.assert_allclose([scores.precision, scores.recall, scores.f1, scores.given], expected)
    matrix = ConfusionMatrix.from_predictions(labels, predictions, [str(n) for n in range(6)])
    np.testing.assert_array_equal(matrix.counts, metrics.confusion_matrix(labels, predictions))


def test_many_labels_share_a_row():
    """The labels with the most errors keep their own rows, and no example is lost."""
    rng, names = np.random.default_rng(1), [f"n{n}" for n in range(30)]
    labels = rng.integers(0, 30, 500)
    predictions = np.where(np.isin(labels, [3, 17]), 28, labels)
    matrix = ConfusionMatrix.from_predictions(labels, predictions, names, most=3)
    assert matrix.shown == [3, 17, 28] and matrix.names == ["n3", "n17", "n28", OTHERS]
    whole = ConfusionMatrix.from_predictions(labels, predictions, names, most=30).counts
    rest = [n for n in range(30) if n not in matrix.shown]
    expected = [[whole[np.ix_(a, b)].sum() for b in ([3], [17], [28], rest)] for a in ([3], [17], [28], rest)]
    assert matrix.counts.tolist() == expected and matrix.counts.sum() == 500


def test_names_with_markup():
    matrix = ConfusionMatrix.from_predictions([0], [1], HOSTILE)
    cells = shown_cells(matrix.table())
    assert [row[0] for row in cells[1:]] == cells[0][1:] == [_cut(shown_as(name)) for name in HOSTILE]
    assert matrix.picture("a title").ndim == 3


def _cut(text):
    return text if len(text) <= 60 else text[:60].rstrip() + "…"


@pytest.mark.parametrize("number", [2, 5, 21])
def test_cells_of_the_picture_are_as_dark_as_their_share(number):
    names = [f"label {n}" for n in range(number)]
    labels = np.repeat(np.arange(number), 4)
    predictions = np.where(np.arange(4 * number) % 4 == 3, (labels + 1) % number, labels)  # 3 of 4 are right
    matrix = ConfusionMatrix.from_predictions(labels, predictions, names, most=30)
    pixels = matrix.picture("Confusion matrix")
    dark, light = (len(pixels_of(pixels, colour)[0]) for colour in ("#3f94c5", "#bfdbeb"))  # 75 and 25 % of blue
    assert dark > 20 * number**2 and dark == pytest.approx(light, rel=0.3)  # of both as many cells, less frame and text
