"""What TensorBoard shows of predicted labels and numbers: counts, tables, pictures, and the right examples."""

import numpy as np
import pytest
from helpers.picture_pixels import pixels_of
from helpers.shown_text import HOSTILE, shown_as, shown_cells

from kbert.inspection.charts import (
    MOST_POINTS,
    ORANGE,
    confusion_picture,
    scatter_picture,
)
from kbert.inspection.examples.prediction_views import (
    MOST_EXAMPLES,
    OTHERS,
    Calibration,
    confusion_matrix,
    label_views,
    most_confused,
    multi_label_views,
    number_views,
    scores_table,
)
from kbert.inspection.markdown import escape
from kbert.tasks.metrics import scores_by_label

LABELS, PREDICTIONS = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 0, 0])
NAMES = ["neg", "pos", "other", "never"]


# Labels


def test_counts():
    counts, names = confusion_matrix(LABELS, PREDICTIONS, NAMES, range(4))
    assert counts.tolist() == [[2, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert names == NAMES


def test_precision_and_recall():
    assert most_confused(LABELS, PREDICTIONS, 4, 2) == [0, 1] and most_confused(LABELS, PREDICTIONS, 4) == [0, 1, 2, 3]
    assert most_confused(LABELS, LABELS, 4, 1) == [0]  # without an error
    assert shown_cells(scores_table(scores_by_label(LABELS, PREDICTIONS, NAMES), [2, 0])) == [
        ["label", "precision", "recall", "F1", "examples", "predicted"],
        ["other", "0%", "0%", "0%", "1", "0"],
        ["neg", "50%", "67%", "57%", "3", "4"],
    ]


def test_many_labels_share_a_row():
    """The labels with the most errors keep their own rows, and no example is lost."""
    rng, names = np.random.default_rng(1), [f"n{n}" for n in range(30)]
    labels = rng.integers(0, 30, 500)
    predictions = np.where(np.isin(labels, [3, 17]), 28, labels)
    shown = most_confused(labels, predictions, 30, 3)
    counts, shown_names = confusion_matrix(labels, predictions, names, shown)
    assert shown == [3, 17, 28] and shown_names == ["n3", "n17", "n28", OTHERS]
    whole, _ = confusion_matrix(labels, predictions, names, range(30))
    groups = ([3], [17], [28], [n for n in range(30) if n not in shown])
    assert counts.tolist() == [[whole[np.ix_(a, b)].sum() for b in groups] for a in groups] and counts.sum() == 500


def test_names_with_markup():
    scores = scores_by_label(np.array([0]), np.array([1]), HOSTILE)
    cells = shown_cells(scores_table(scores, range(len(HOSTILE))))
    shown = [shown_as(name) for name in HOSTILE]
    cut = [text if len(text) <= 60 else text[:60].rstrip() + "…" for text in shown]
    assert [row[0] for row in cells[1:]] == cut


@pytest.mark.parametrize("number", [2, 5, 21])
def test_cells_of_the_picture_are_as_dark_as_their_share(number):
    names = [f"label {n}" for n in range(number)]
    labels = np.repeat(np.arange(number), 4)
    predictions = np.where(np.arange(4 * number) % 4 == 3, (labels + 1) % number, labels)  # 3 of 4 are right
    pixels = confusion_picture(*confusion_matrix(labels, predictions, names, range(number)), "Confusion matrix")
    dark, light = (len(pixels_of(pixels, colour)[0]) for colour in ("#3f94c5", "#bfdbeb"))  # 75 and 25 % of blue
    assert dark > 20 * number**2 and dark == pytest.approx(light, rel=0.3)  # of both as many cells, less frame and text


# Calibration


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


def test_the_gap_is_drawn():
    """The orange line stands at the confidence: higher for a model that is surer."""
    tops = []
    for sure in (0.65, 0.95):
        pixels = Calibration.from_confidence([sure, sure], [True, False]).picture("Reliability")
        rows, _ = pixels_of(pixels[:, :800], ORANGE)  # without the legend
        tops.append(rows.min())
    low, _ = pixels_of(pixels[:, :800], "#338ec1")  # the bar, up to 50 % in both
    assert (tops[0] - tops[1]) / 0.3 == pytest.approx((low.min() - tops[1]) / 0.45, rel=0.05)


# Views of labels


PROBABILITIES = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.05, 0.9, 0.05], [0.3, 0.31, 0.39], [0.0, 0.5, 0.5]])


def contents(views):
    return {view.tag.removeprefix("predictions/"): view.content for view in views}


def views_of(probabilities, labels, names, texts):
    scores = scores_by_label(labels, np.argmax(probabilities, axis=1), names)
    return contents(label_views(probabilities, labels, scores, ["text"], lambda row: [escape(texts[row])]))


def test_the_surest_errors():
    views = views_of(PROBABILITIES, [0, 0, 2, 2, 0], ["a", "b", "c"], "vwxyz")
    assert shown_cells(views["confidently wrong"]) == [
        ["gold", "predicted", "text"],
        ["c (5.0%)", "b (90%)", "x"],
        ["a (10%)", "c (60%)", "w"],
        ["a (0%)", "b (50%)", "z"],
    ]
    page = views["by label"]
    assert page.startswith("5 held-out examples, accuracy 40%, expected calibration error ")
    assert ["a", "100%", "33%", "50%", "3", "1"] in shown_cells(page)
    assert views["expected calibration error"] == pytest.approx((0.3 + 0.6 + 0.9 + 0.61 + 0.5) / 5)
    assert views["confusion matrix"].dtype == views["calibration"].dtype == np.uint8


def test_a_model_without_errors():
    views = views_of([[0.9, 0.1], [0.2, 0.8]], [0, 1], ["neg", "pos"], "ab")
    assert views["confidently wrong"] == "No held-out example is predicted wrongly."
    assert views["expected calibration error"] == pytest.approx(0.15)


def test_tables_are_bounded_and_texts_stay_text():
    rng = np.random.default_rng(0)
    names = [*HOSTILE, *(f"n{n}" for n in range(30))]
    probabilities = rng.dirichlet(np.ones(len(names)), 200)
    texts = [HOSTILE[n % len(HOSTILE)] for n in range(200)]
    views = views_of(probabilities, rng.integers(0, len(names), 200), names, texts)
    cells = shown_cells(views["confidently wrong"])
    assert len(cells) == 1 + MOST_EXAMPLES
    assert {row[-1] for row in cells[1:]} <= {shown_as(text) for text in HOSTILE}
    assert "(20 of 37 labels, those with the most errors)" in views["by label"]
    shown_cells(views["by label"])


def test_several_labels_a_text():
    probabilities = [[0.9, 0.2, 0.1], [0.4, 0.8, 0.6], [0.3, 0.6, 0.2]]
    labels, names, texts = [[1, 0, 0], [1, 1, 0], [0, 0, 0]], ["a|b", "*c*", "never"], ["x", HOSTILE[0], "z"]
    thresholds = [0.5, 0.7, 0.5]
    scores = scores_by_label(labels, np.array(probabilities) > thresholds, names)
    arguments = (labels, scores, thresholds, ["text"], lambda row: [escape(texts[row])])
    views = contents(multi_label_views(probabilities, *arguments))
    assert views["by label"].startswith("3 held-out examples, all labels right in 67%, calibration error ")
    assert shown_cells(views["by label"]) == [
        ["label", "precision", "recall", "F1", "examples", "predicted"],
        ["a|b", "100%", "50%", "67%", "2", "1"],
        ["*c*", "100%", "100%", "100%", "1", "1"],
        ["never", "0%", "0%", "0%", "0", "1"],
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
    probabilities = rng.random((30, 40))
    scores = scores_by_label(labels, probabilities > 0.5, names)
    views = multi_label_views(probabilities, labels, scores, 0.5, ["text"], lambda row: [str(row)])
    assert "(20 of 40 labels, those with the most errors)" in views[0].content
    assert len(shown_cells(views[0].content)) == 21
    worst = shown_cells(views[3].content)
    assert len(worst) == 1 + MOST_EXAMPLES and all(row[1].endswith(", 32 more") for row in worst[1:])


# Numbers


def test_numbers():
    texts = [*HOSTILE, *"abcdefgh"]
    labels = np.arange(len(texts), dtype="float64")
    predictions = labels + np.where(labels == 3, -9.0, 0.125)
    views = contents(number_views(predictions, labels, ["text"], lambda row: [escape(texts[row])]))
    worst = shown_cells(views["worst"])
    assert worst[1] == ["3", "-6", "-9", shown_as(HOSTILE[3])]
    assert worst[2] == ["0", "0.125", "+0.125", shown_as(HOSTILE[0])] and len(worst) == 11
    assert views["scatter plot"].ndim == 3


def test_right_predictions_lie_on_the_diagonal():
    def points(predictions):
        pixels = scatter_picture(labels, predictions, "Predicted against gold")
        return np.nonzero(pixels.astype(int) @ [-1, 0, 1] > 20)  # bluish

    labels = np.linspace(-2.0, 5.0, 30)
    rows, columns = points(labels)
    up, right = rows.max() - rows, columns - columns.min()
    assert np.abs(up / up.max() - right / right.max()).max() < 0.03 and len(rows) > 500
    assert np.corrcoef(*points(-labels))[0, 1] > 0.9


@pytest.mark.parametrize("labels", [np.zeros(3), np.array([1e-9]), np.arange(3.0 * MOST_POINTS)])
def test_pictures_of_any_numbers(labels):
    assert scatter_picture(labels, labels, "").any()


@pytest.mark.parametrize("rest", [[], [1.0, 2.0, 4.0]])
def test_numbers_that_are_not_finite_are_counted(rest):
    """In the title; what is drawn below is the picture of the finite ones."""
    labels, predictions = np.array([0.0, np.nan, np.inf, *rest]), np.array([np.inf, 1.0, np.inf, *rest])
    finite, title = np.array(rest), f"Numbers\nnot drawn: 3 of {len(labels)} are not finite"
    expected = scatter_picture(finite, finite, title)
    np.testing.assert_array_equal(scatter_picture(labels, predictions, "Numbers"), expected)
