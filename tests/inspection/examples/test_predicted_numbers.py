"""Predicted against gold numbers."""

import numpy as np
import pytest
from helpers.picture_pixels import pixels_of
from helpers.shown_text import shown_cells

from kbert.inspection.charts import BLUE
from kbert.inspection.examples.predicted_numbers import MOST_POINTS, PredictedNumbers


def test_residuals_by_fifths():
    labels = np.arange(10.0)
    table = shown_cells(PredictedNumbers(labels, labels + np.repeat([1.0, -3.0], 5)).table())
    assert table[0] == ["gold", "mean residual", "mean absolute residual", "root mean square", "examples"]
    assert table[1] == ["all", "-1", "2", "2.24", "10"]
    assert table[2] == ["0 to 1", "+1", "1", "1", "2"] and table[4] == ["4 to 5", "-1", "2", "2.24", "2"]
    assert len(table) == 7
    assert len(shown_cells(PredictedNumbers(labels[:3], labels[:3]).table())) == 2  # too few for fifths


def points(pixels):
    return np.nonzero(pixels.astype(int) @ [-1, 0, 1] > 20)  # bluish


def test_right_predictions_lie_on_the_diagonal():
    labels = np.linspace(-2.0, 5.0, 30)
    rows, columns = points(PredictedNumbers(labels, labels).scatter_picture("Predicted against gold"))
    up, right = rows.max() - rows, columns - columns.min()
    assert np.abs(up / up.max() - right / right.max()).max() < 0.03 and len(rows) > 500
    rows, columns = points(PredictedNumbers(labels, -labels).scatter_picture())
    assert np.corrcoef(rows, columns)[0, 1] > 0.9


@pytest.mark.parametrize("labels", [np.zeros(3), np.array([1e-9]), np.arange(3.0 * MOST_POINTS)])
def test_pictures_of_any_numbers(labels):
    numbers = PredictedNumbers(labels, labels.copy())
    assert numbers.scatter_picture().any() and numbers.residual_picture("Residuals").any()


@pytest.mark.parametrize("rest", [[], [1.0, 2.0, 4.0]])
def test_numbers_that_are_not_finite_are_counted(rest):
    """In the title; what is drawn below is the picture of the finite ones."""
    labels, predictions = np.array([0.0, np.nan, np.inf, *rest]), np.array([np.inf, 1.0, np.inf, *rest])
    title = f"Numbers\nnot drawn: 3 of {len(labels)} are not finite"
    for name in ("scatter_picture", "residual_picture"):
        some = getattr(PredictedNumbers(np.array(rest), np.array(rest)), name)(title)
        np.testing.assert_array_equal(getattr(PredictedNumbers(labels, predictions), name)("Numbers"), some)


def test_the_histogram_counts_every_residual():
    """The areas of the bars are in proportion to their counts."""
    numbers = PredictedNumbers(np.zeros(100), np.repeat([-1.0, 1.0], [25, 75]))
    _, columns = pixels_of(numbers.residual_picture(), BLUE)
    middle = (columns.min() + columns.max()) / 2
    assert np.sum(columns > middle) / np.sum(columns < middle) == pytest.approx(3, rel=0.03)
