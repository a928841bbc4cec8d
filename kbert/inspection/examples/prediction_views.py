"""What TensorBoard shows of predicted labels and numbers beside the gold ones: scores, pictures, the worst examples.

Shapes: N labels, m rows and columns of the matrix, n examples, b bins.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from kbert.inspection.charts import confusion_picture, reliability_picture, residual_picture, scatter_picture
from kbert.inspection.markdown import escape, markdown_table, percent
from kbert.inspection.view import View

MOST_EXAMPLES = 10  # rows of a table of examples
MOST_LABELS = 20
OTHERS = "other labels"
_MOST_NAMES = 8  # labels in a cell


@dataclasses.dataclass(frozen=True, eq=False)
class LabelScores:
    """How often each label was right, given and predicted, int64 [N] each.

    `precision`, `recall` and `f1` are float64 [N], NaN where they are undefined.
    """

    right: np.ndarray
    given: np.ndarray
    predicted: np.ndarray

    @classmethod
    def from_predictions(cls, labels: np.ndarray, predictions: np.ndarray, num_labels: int) -> "LabelScores":
        """Counts labels and predictions, ints [n] each."""
        right = labels[labels == predictions]
        return cls(*(np.bincount(numbers, minlength=num_labels) for numbers in (right, labels, predictions)))

    @property
    def precision(self) -> np.ndarray:
        return _share(self.right, self.predicted)

    @property
    def recall(self) -> np.ndarray:
        return _share(self.right, self.given)

    @property
    def f1(self) -> np.ndarray:
        return _share(2 * self.right, self.given + self.predicted)

    def with_most_errors(self, most: int = MOST_LABELS) -> list[int]:
        """The labels that are shown: of many, those with the most wrong examples that have it or are predicted so."""
        errors = self.given + self.predicted - 2 * self.right
        return sorted(np.argsort(-errors, kind="stable")[:most].tolist())

    def table(self, names: Sequence[str], shown: Sequence[int]) -> str:
        """A Markdown table with a row for each label of `shown`; "–" where a fraction is undefined."""
        rows = []
        for n in shown:
            fractions = [percent(float(column[n])) for column in (self.precision, self.recall, self.f1)]
            rows.append([escape(names[n], 60), *fractions, f"{self.given[n]:,}", f"{self.predicted[n]:,}"])
        return markdown_table(["label", "precision", "recall", "F1", "examples", "predicted"], rows)


def _share(part, whole):
    return np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)


def confusion_matrix(
    labels: Sequence[int] | np.ndarray,
    predictions: Sequence[int] | np.ndarray,
    names: Sequence[str],
    shown: Sequence[int],
) -> tuple[np.ndarray, list[str]]:
    """Counts int64 [m, m], gold labels as rows, and the names of rows and columns.

    The labels that are not `shown` share the last row and column.
    """
    is_folded = len(shown) < len(names)
    places = np.full(len(names), len(shown))
    places[shown] = np.arange(len(shown))
    size = len(shown) + is_folded
    cells = places[labels] * size + places[predictions]
    counts = np.bincount(cells, minlength=size * size).reshape(size, size)
    return counts, [names[n] for n in shown] + [OTHERS] * is_folded


@dataclasses.dataclass(frozen=True, eq=False)
class Calibration:
    """Examples in b bins of equal width by the probability of the predicted label.

    `counts` is int64 [b]. `confidence`, the mean probability of the predicted label, and `accuracy` are float64 [b],
    NaN for an empty bin.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 2.
    """

    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray

    @classmethod
    def from_confidence(cls, confidence: ArrayLike, is_right: ArrayLike, bins: int = 10) -> "Calibration":
        """Sorts n predictions into bins; a probability on a border belongs to the lower bin."""
        confidence = np.asarray(confidence, "float64")
        places = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
        counts = np.bincount(places, minlength=bins)
        sums = [np.bincount(places, weights, bins) for weights in (confidence, np.asarray(is_right, bool))]
        return cls(counts, *(_share(total, counts) for total in sums))

    @property
    def error(self) -> float:
        """Expected calibration error: mean distance of confidence and accuracy, weighted by examples."""
        used = self.counts > 0
        gaps = np.abs(self.confidence - self.accuracy)[used]
        return float(np.sum(self.counts[used] * gaps) / self.counts.sum())

    def picture(self, title: str, **names) -> np.ndarray:
        """The reliability diagram; `names` as for `reliability_picture`."""
        return reliability_picture(self.counts, self.confidence, self.accuracy, title, **names)


def label_views(
    probabilities: ArrayLike,
    labels: ArrayLike,
    names: Sequence[str],
    header: Sequence[str],
    cells: Callable[[int], Sequence[str]],
) -> list[View]:
    """Confusion matrix, precision and recall by label, calibration, and the most wrong examples.

    `probabilities` are float [n, N], `labels` ints [n]. `cells` maps the number of an example to Markdown for its
    columns. Numbers are of all examples; tables have `MOST_LABELS` and `MOST_EXAMPLES` rows.
    """
    probabilities = np.asarray(probabilities, "float64")
    labels = np.asarray(labels)
    predictions = probabilities.argmax(axis=1)
    confidence = probabilities[np.arange(len(labels)), predictions]
    is_right = predictions == labels
    scores = LabelScores.from_predictions(labels, predictions, len(names))
    shown = scores.with_most_errors()
    counts, shown_names = confusion_matrix(labels, predictions, names, shown)
    calibration = Calibration.from_confidence(confidence, is_right)
    summary = f"{len(labels):,} held-out examples, accuracy {percent(is_right.mean())}"
    error = f"expected calibration error {percent(calibration.error)}"
    limit = _limit(shown, names)
    page = [f"{summary}, {error}", f"### Precision and recall{limit}", scores.table(names, shown)]
    title = f"Confusion matrix{limit}: {summary}"

    def table(rows):
        lines = []
        for row in rows[:MOST_EXAMPLES].tolist():
            both = [
                f"{escape(names[n], 60)} ({percent(probabilities[row, n])})" for n in (labels[row], predictions[row])
            ]
            lines.append(["✓" if is_right[row] else "✗", *both, *cells(row)])
        return markdown_table(["", "gold", "predicted", *header], lines)

    surest = np.argsort(-confidence, kind="stable")
    wrong = surest[~is_right[surest]]
    views = [
        View("predictions/by label", "\n\n".join(page)),
        View("predictions/confusion matrix", confusion_picture(counts, shown_names, title)),
        View("predictions/calibration", calibration.picture(f"Reliability: {error}")),
        View("predictions/expected calibration error", calibration.error),
        View(
            "predictions/confidently wrong",
            table(wrong) if len(wrong) else "No held-out example is predicted wrongly.",
            "Wrong predictions, those with the highest probability first: wrong labels in the data, or what the model "
            "has misunderstood.",
        ),
    ]
    if len(names) > 2:  # with two labels both orders are equal
        worst = table(np.argsort(probabilities[np.arange(len(labels)), labels], kind="stable"))
        views.append(
            View(
                "predictions/worst",
                worst,
                "The examples with the highest loss: the gold label has the lowest probability.",
            )
        )
    return views


def multi_label_views(
    probabilities: ArrayLike,
    labels: ArrayLike,
    names: Sequence[str],
    thresholds: ArrayLike,
    header: Sequence[str],
    cells: Callable[[int], Sequence[str]],
) -> list[View]:
    """Precision and recall by label, reliability of all probabilities, and the examples of highest loss.

    As `label_views`, but `labels` are [n, N], 1 where a label is on.
    """
    probabilities = np.asarray(probabilities, "float64")
    gold = np.asarray(labels, bool)
    predicted = probabilities > np.asarray(thresholds)
    scores = LabelScores(*(np.count_nonzero(chosen, axis=0) for chosen in (gold & predicted, gold, predicted)))
    shown = scores.with_most_errors()
    calibration = Calibration.from_confidence(probabilities.ravel(), gold.ravel())
    is_right = (gold == predicted).all(axis=1)
    summary = f"{len(gold):,} held-out examples, all labels right in {percent(is_right.mean())}"
    error = f"calibration error {percent(calibration.error)}"
    page = [f"{summary}, {error}", f"### Precision and recall{_limit(shown, names)}", scores.table(names, shown)]

    def listed(row, chosen):
        numbers = np.flatnonzero(chosen[row])
        parts = [f"{escape(names[n], 60)} ({percent(probabilities[row, n])})" for n in numbers[:_MOST_NAMES]]
        if len(numbers) > _MOST_NAMES:
            parts.append(f"{len(numbers) - _MOST_NAMES:,} more")
        return ", ".join(parts) or "–"

    likely = np.clip(np.where(gold, probabilities, 1 - probabilities), 1e-300, None)
    worst = np.argsort(np.log(likely).mean(axis=1), kind="stable")[:MOST_EXAMPLES].tolist()
    rows = [["✓" if is_right[row] else "✗", listed(row, gold), listed(row, predicted), *cells(row)] for row in worst]
    picture = calibration.picture(f"Reliability: {error}", of="a label", fraction="fraction with it")
    return [
        View("predictions/by label", "\n\n".join(page)),
        View("predictions/calibration", picture, "All labels of all examples."),
        View("predictions/expected calibration error", calibration.error),
        View(
            "predictions/worst",
            markdown_table(["", "gold", "predicted", *header], rows),
            "The examples with the highest loss, and the probabilities of the labels.",
        ),
    ]


def _limit(shown, names):
    return f" ({len(shown)} of {len(names):,} labels, those with the most errors)" if len(shown) < len(names) else ""


def number_views(
    predictions: ArrayLike, labels: ArrayLike, header: Sequence[str], cells: Callable[[int], Sequence[str]]
) -> list[View]:
    """Predicted against gold numbers [n], the residuals, and the examples that are most wrong.

    `cells` maps the number of an example to Markdown for its columns.
    """
    labels = np.asarray(labels, "float64")
    predictions = np.asarray(predictions, "float64")
    with np.errstate(invalid="ignore"):  # inf - inf is not a number
        residuals = predictions - labels
    worst = []
    for row in np.argsort(-np.abs(residuals), kind="stable")[:MOST_EXAMPLES].tolist():
        worst.append([f"{labels[row]:.4g}", f"{predictions[row]:.4g}", f"{residuals[row]:+.3g}", *cells(row)])
    count = f"{len(labels):,} held-out examples"
    return [
        View("predictions/scatter plot", scatter_picture(labels, predictions, f"Predicted against gold: {count}")),
        View("predictions/residual histogram", residual_picture(residuals, f"Residuals: {count}")),
        View(
            "predictions/worst",
            markdown_table(["gold", "predicted", "residual", *header], worst),
            "The examples with the largest residuals.",
        ),
    ]
