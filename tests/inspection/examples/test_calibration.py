"""The reliability of probabilities against its definition."""

import numpy as np
import pytest
from helpers.picture_pixels import pixels_of
from helpers.shown_text import shown_cells

from kbert.inspection.charts import ORANGE
from kbert.inspection.examples.calibration import Calibration


def expected_error(confidence, is_right, bins):
    """Guo et al. 2017, equations 2 to 5, bin by bin: ((m - 1) / M, m / M]."""
    total = 0.0
    for m in range(1, bins + 1):
        rows = [n for n, c in enumerate(confidence) if (m - 1) / bins < c <= m / bins]
        if rows:
            accuracy, mean = np.mean([is_right[n] for n in rows]), np.mean([confidence[n] for n in rows])
            total += len(rows) / len(confidence) * abs(accuracy - mean)
    return total


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_the_error_is_that_of_its_definition(bins):
    rng = np.random.default_rng(bins)
    confidence = rng.uniform(0.01, 1, 400)
    is_right = rng.uniform(size=400) < confidence**2
    calibration = Calibration.from_confidence(confidence, is_right, bins)
    assert calibration.counts.sum() == 400
    assert calibration.error == pytest.approx(expected_error(confidence, is_right, bins))
    assert calibration.error > 0.1


def test_borders_and_empty_bins():
    calibration = Calibration.from_confidence([0.5, 0.5000001, 1.0, 0.0], [True, False, True, False], bins=4)
    assert calibration.counts.tolist() == [1, 1, 1, 1]
    calibration = Calibration.from_confidence([0.9, 0.9, 0.6], [True, False, True])
    assert calibration.error == pytest.approx(0.4)
    assert np.isnan(calibration.accuracy[0]) and calibration.accuracy[8] == 0.5
    assert Calibration.from_confidence([1.0, 1.0], [True, True]).error == 0


def test_the_table_has_the_bins_with_examples():
    table = shown_cells(Calibration.from_confidence([0.9, 0.9, 0.6], [True, False, True]).table())
    assert table == [
        ["probability", "mean", "accuracy", "the model is", "examples"],
        ["50 to 60%", "60%", "100%", "not sure enough", "1"],
        ["80 to 90%", "90%", "50%", "too sure", "2"],
    ]


def test_the_gap_is_drawn():
    """The orange line stands at the confidence: higher for a model that is surer."""
    tops = []
    for sure in (0.65, 0.95):
        pixels = Calibration.from_confidence([sure, sure], [True, False]).picture("Reliability")
        rows, _ = pixels_of(pixels[:, :800], ORANGE)  # without the legend
        tops.append(rows.min())
    low, _ = pixels_of(pixels[:, :800], "#338ec1")  # the bar, up to 50 % in both
    assert (tops[0] - tops[1]) / 0.3 == pytest.approx((low.min() - tops[1]) / 0.45, rel=0.05)
