"""What TensorBoard shows of predicted labels and numbers beside the gold ones: scores, pictures, the worst examples.

Shapes: N labels, m rows and columns of the matrix, n examples, b bins.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from kbert.inspection.charts import confusion_picture, reliability_picture, scatter_picture
from kbert.inspection.markdown import escape, markdown_table, percent
from kbert.inspection.view import View

MOST_EXAMPLES = 10  # rows of a table of examples
MOST_LABELS = 20
OTHERS = "other labels"
_MOST_NAMES = 8  # labels in a cell


def most_confused(labels: np.ndarray, predictions: np.ndarray, num_labels: int, most: int = MOST_LABELS) -> list[int]:
    """The labels that are shown: of many, those with the most wrong examples that have it or are predicted so.

    `labels` and `predictions` are class numbers [n], or tables [n, N] of 0 and 1.
    """
    wrong = labels != predictions
    if labels.ndim == 2:
        errors = wrong.sum(axis=0)
    else:
        errors = np.bincount(np.concatenate([labels[wrong], predictions[wrong]]), minlength=num_labels)
    return sorted(np.argsort(-errors, kind="stable")[:most].tolist())


def scores_table(by_label: Mapping[str, Mapping], shown: Sequence[int]) -> str:
    """A Markdown table with a row for each label of `shown`, from `kbert.tasks.metrics.scores_by_label`."""
    rows = []
    for name, scores in (list(by_label.items())[n] for n in shown):
        fractions = [percent(scores[metric]) for metric in ("precision", "recall", "f1")]
        rows.append([escape(name, 60), *fractions, f"{scores['examples']:,}", f"{scores['predicted_examples']:,}"])
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
    by_label: Mapping[str, Mapping],
    header: Sequence[str],
    cells: Callable[[int], Sequence[str]],
) -> list[View]:
    """Confusion matrix, precision and recall by label, calibration, and the most confident errors.

    `probabilities` are float [n, N], `labels` ints [n]. `by_label` is what `kbert.tasks.metrics.scores_by_label`
    returns for them. `cells` maps the number of an example to Markdown for its columns. Numbers are of all examples;
    tables have `MOST_LABELS` and `MOST_EXAMPLES` rows.
    """
    names = list(by_label)
    probabilities = np.asarray(probabilities, "float64")
    labels = np.asarray(labels)
    predictions = probabilities.argmax(axis=1)
    confidence = probabilities[np.arange(len(labels)), predictions]
    is_right = predictions == labels
    shown = most_confused(labels, predictions, len(names))
    counts, shown_names = confusion_matrix(labels, predictions, names, shown)
    calibration = Calibration.from_confidence(confidence, is_right)
    summary = f"{len(labels):,} held-out examples, accuracy {percent(is_right.mean())}"
    error = f"expected calibration error {percent(calibration.error)}"
    limit = _limit(shown, names)
    page = [f"{summary}, {error}", f"### Precision and recall{limit}", scores_table(by_label, shown)]
    title = f"Confusion matrix{limit}: {summary}"

    surest = np.argsort(-confidence, kind="stable")
    wrong = []
    for row in surest[~is_right[surest]][:MOST_EXAMPLES].tolist():
        both = [f"{escape(names[n], 60)} ({percent(probabilities[row, n])})" for n in (labels[row], predictions[row])]
        wrong.append([*both, *cells(row)])
    return [
        View("predictions/by label", "\n\n".join(page)),
        View("predictions/confusion matrix", confusion_picture(counts, shown_names, title)),
        View("predictions/calibration", calibration.picture(f"Reliability: {error}")),
        View("predictions/expected calibration error", calibration.error),
        View(
            "predictions/confidently wrong",
            markdown_table(["gold", "predicted", *header], wrong)
            if wrong
            else "No held-out example is predicted wrongly.",
            "Wrong predictions, those with the highest probability first: wrong labels in the data, or what the model "
            "has misunderstood.",
        ),
    ]


def multi_label_views(
    probabilities: ArrayLike,
    labels: ArrayLike,
    by_label: Mapping[str, Mapping],
    thresholds: ArrayLike,
    header: Sequence[str],
    cells: Callable[[int], Sequence[str]],
) -> list[View]:
    """Precision and recall by label, reliability of all probabilities, and the examples of highest loss.

    As `label_views`, but `labels` are [n, N], 1 where a label is on.
    """
    names = list(by_label)
    probabilities = np.asarray(probabilities, "float64")
    gold = np.asarray(labels, bool)
    predicted = probabilities > np.asarray(thresholds)
    shown = most_confused(gold, predicted, len(names))
    calibration = Calibration.from_confidence(probabilities.ravel(), gold.ravel())
    is_right = (gold == predicted).all(axis=1)
    summary = f"{len(gold):,} held-out examples, all labels right in {percent(is_right.mean())}"
    error = f"calibration error {percent(calibration.error)}"
    page = [f"{summary}, {error}", f"### Precision and recall{_limit(shown, names)}", scores_table(by_label, shown)]

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
    """Predicted against gold numbers [n], and the examples with the largest residuals.

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
        View(
            "predictions/worst",
            markdown_table(["gold", "predicted", "residual", *header], worst),
            "The examples with the largest residuals.",
        ),
    ]
