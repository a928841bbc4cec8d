"""What TensorBoard shows of a classifier's predictions: scores of each label, confusion matrix, reliability.

Shapes: N labels, m rows and columns of the matrix, n examples, b bins.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from kbert.inspection.charts import confusion_picture, reliability_picture
from kbert.inspection.markdown import escape, markdown_table, percent
from kbert.inspection.view import View


@dataclasses.dataclass(frozen=True, eq=False)
class LabelScores:
    """How often each label was right, given and predicted, int64 [N] each."""

    right: np.ndarray
    given: np.ndarray
    predicted: np.ndarray

    @classmethod
    def from_predictions(cls, labels, predictions, num_labels: int) -> "LabelScores":
        """Counts labels and predictions, ints [n] each."""
        labels, predictions = np.asarray(labels), np.asarray(predictions)
        right = labels[labels == predictions]
        return cls(*(np.bincount(numbers, minlength=num_labels) for numbers in (right, labels, predictions)))

    @property
    def precision(self) -> np.ndarray:
        """float64 [N]: the share of a label's predictions that is right, NaN where there are none."""
        return _share(self.right, self.predicted)

    @property
    def recall(self) -> np.ndarray:
        """float64 [N]: the share of a label's examples that is predicted so, NaN where there are none."""
        return _share(self.right, self.given)

    @property
    def f1(self) -> np.ndarray:
        """float64 [N]: the harmonic mean of both, NaN for a label that is neither given nor predicted."""
        return _share(2 * self.right, self.given + self.predicted)

    @property
    def errors(self) -> np.ndarray:
        """int64 [N]: the wrong examples that have the label or are predicted to have it."""
        return self.given + self.predicted - 2 * self.right

    def table(self, names: Sequence[str], shown) -> str:
        """A Markdown table with a row for each label of `shown`; "–" where a share is undefined."""
        rows = []
        for n in shown:
            shares = [percent(float(column[n])) for column in (self.precision, self.recall, self.f1)]
            rows.append([escape(names[n], 60), *shares, f"{self.given[n]:,}", f"{self.predicted[n]:,}"])
        return markdown_table(["label", "precision", "recall", "F1", "examples", "predicted"], rows)


def _share(part, whole):
    return np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)


MOST_LABELS = 20
OTHERS = "other labels"


@dataclasses.dataclass(frozen=True, eq=False)
class ConfusionMatrix:
    """How often each label (column of int64 [m, m]) was predicted for each gold label (row).

    Of more than `MOST_LABELS` labels, the ones with the most errors have rows and columns of their
    own (`shown`), and the others share one.
    """

    counts: np.ndarray
    names: Sequence[str]
    shown: Sequence[int]

    @classmethod
    def from_predictions(cls, labels, predictions, names: Sequence[str], most: int = MOST_LABELS) -> "ConfusionMatrix":
        """Counts labels and predictions, ints [n] each."""
        shown = list(range(len(names)))
        if len(names) > most:
            errors = LabelScores.from_predictions(labels, predictions, len(names)).errors
            shown = sorted(np.argsort(-errors, kind="stable")[:most].tolist())
        is_folded = len(shown) < len(names)
        places = np.full(len(names), len(shown))
        places[shown] = np.arange(len(shown))
        size = len(shown) + is_folded
        cells = places[np.asarray(labels)] * size + places[np.asarray(predictions)]
        counts = np.bincount(cells, minlength=size * size).reshape(size, size)
        return cls(counts, [*(names[n] for n in shown), *([OTHERS] if is_folded else ())], shown)

    def table(self) -> str:
        """A Markdown table; right predictions are in bold, and zeros are dots."""
        rows = []
        for n, (name, counts) in enumerate(zip(self.names, self.counts.tolist(), strict=True)):
            cells = [f"**{count:,}**" if n == m else f"{count:,}" if count else "·" for m, count in enumerate(counts)]
            rows.append([escape(name, 60), *cells])
        return markdown_table(["gold ↓ predicted →", *(escape(name, 60) for name in self.names)], rows)

    def picture(self, title: str = "") -> np.ndarray:
        return confusion_picture(self.counts, self.names, title)


@dataclasses.dataclass(frozen=True, eq=False)
class Calibration:
    """Examples in b bins of equal width by the probability of the predicted label.

    `counts` is int64 [b]. `confidence`, the mean probability of the predicted label, and `accuracy`
    are float64 [b], NaN for an empty bin.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 2.
    """

    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray

    @classmethod
    def from_confidence(cls, confidence, is_right, bins: int = 10) -> "Calibration":
        """Sorts n predictions into bins; a probability on a border belongs to the lower bin."""
        confidence, is_right = np.asarray(confidence, "float64"), np.asarray(is_right, bool)
        places = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
        counts = np.bincount(places, minlength=bins)
        sums = (np.bincount(places, weights, bins) for weights in (confidence, is_right))
        return cls(counts, *(np.divide(total, counts, out=np.full(bins, np.nan), where=counts > 0) for total in sums))

    @property
    def error(self) -> float:
        """Expected calibration error: mean distance of confidence and accuracy, weighted by examples."""
        used = self.counts > 0
        gaps = np.abs(self.confidence - self.accuracy)[used]
        return float(np.sum(self.counts[used] * gaps) / self.counts.sum())

    def table(self) -> str:
        """A Markdown table of the bins that have examples."""
        rows = []
        bins = len(self.counts)
        for n in np.flatnonzero(self.counts):
            confidence, accuracy = float(self.confidence[n]), float(self.accuracy[n])
            verdict = (
                "too sure" if confidence > accuracy else "not sure enough" if confidence < accuracy else "as it is"
            )
            span = f"{100 * n / bins:.0f} to {100 * (n + 1) / bins:.0f}%"
            rows.append([span, percent(confidence), percent(accuracy), verdict, f"{self.counts[n]:,}"])
        return markdown_table(["probability", "mean", "accuracy", "the model is", "examples"], rows)

    def picture(self, title: str = "", of: str = "the predicted label", share: str = "accuracy") -> np.ndarray:
        """The reliability diagram, uint8 [height, width, 3]; see `reliability_picture`."""
        return reliability_picture(self.counts, self.confidence, self.accuracy, title, of, share)


MOST_EXAMPLES = 10  # rows of a table of examples


def label_views(
    probabilities, labels, names: Sequence[str], header: Sequence[str], cells: Callable[[int], Sequence[str]]
) -> list[View]:
    """Confusion matrix, precision and recall by label, calibration, and the most wrong examples.

    `probabilities` are float [n, N], `labels` ints [n]. `cells` maps the number of an example to
    Markdown for its columns. Numbers are of all examples, tables of examples have `MOST_EXAMPLES`
    rows.
    """
    probabilities, labels = np.asarray(probabilities, "float64"), np.asarray(labels)
    predictions = probabilities.argmax(axis=1)
    confidence = probabilities[np.arange(len(labels)), predictions]
    is_right = predictions == labels
    scores = LabelScores.from_predictions(labels, predictions, len(names))
    matrix = ConfusionMatrix.from_predictions(labels, predictions, names)
    calibration = Calibration.from_confidence(confidence, is_right)
    summary = f"{len(labels):,} held-out examples, accuracy {percent(is_right.mean())}"
    error = f"expected calibration error {percent(calibration.error)}"
    is_limited = len(matrix.shown) < len(names)
    limit = f" ({len(matrix.shown)} of {len(names):,} labels, those with the most errors)" if is_limited else ""
    parts = [
        f"{summary}, {error}",
        f"### Precision and recall{limit}",
        scores.table(names, matrix.shown),
        f"### Confusion matrix{limit}",
        matrix.table(),
        "### Calibration",
        calibration.table(),
    ]

    def line(row):
        both = (f"{escape(names[n], 60)} ({percent(probabilities[row, n])})" for n in (labels[row], predictions[row]))
        return ["✓" if is_right[row] else "✗", *both, *cells(row)]

    def table(rows):
        if not len(rows):
            return "No held-out example is predicted wrongly."
        return markdown_table(["", "gold", "predicted", *header], map(line, rows))

    views = [
        View("predictions/by label", "\n\n".join(parts)),
        View("predictions/confusion matrix", matrix.picture(f"Confusion matrix: {summary}")),
        View("predictions/calibration", calibration.picture(f"Reliability: {error}")),
        View("predictions/expected calibration error", calibration.error),
        View(
            "predictions/confidently wrong",
            table(_first(np.where(is_right, -1.0, confidence), ~is_right)),
            "Wrong predictions, those with the highest probability first: wrong labels in the data, or what the model "
            "has misunderstood.",
        ),
    ]
    if len(names) > 2:  # with two labels both orders are equal
        gold = probabilities[np.arange(len(labels)), labels]
        worst = View(
            "predictions/worst",
            table(_first(-gold, np.ones(len(labels), bool))),
            "The examples with the highest loss: the gold label has the lowest probability.",
        )
        views.append(worst)
    return views


def _first(order, chosen):
    """The chosen rows with the highest values."""
    rows = np.argsort(-order, kind="stable")
    return rows[chosen[rows]][:MOST_EXAMPLES].tolist()


_MOST_NAMES = 8  # labels in a cell


def multi_label_views(
    probabilities,
    labels,
    names: Sequence[str],
    thresholds,
    header: Sequence[str],
    cells: Callable[[int], Sequence[str]],
) -> list[View]:
    """Precision and recall by label, reliability of all probabilities, and the examples of highest loss.

    `probabilities` are float [n, N], `labels` [n, N], 1 where a label is on. `cells` maps the
    number of an example to Markdown for its columns. Numbers are of all examples; tables have
    `MOST_LABELS` and `MOST_EXAMPLES` rows.
    """
    probabilities, gold = np.asarray(probabilities, "float64"), np.asarray(labels, bool)
    predicted = probabilities > np.asarray(thresholds)
    scores = LabelScores(*(np.count_nonzero(chosen, axis=0) for chosen in (gold & predicted, gold, predicted)))
    calibration = Calibration.from_confidence(probabilities.ravel(), gold.ravel())
    is_right = (gold == predicted).all(axis=1)
    shown = np.sort(np.argsort(-scores.errors, kind="stable")[:MOST_LABELS]).tolist()
    limit = f" ({len(shown)} of {len(names):,} labels, those with the most errors)" if len(shown) < len(names) else ""
    summary = f"{len(gold):,} held-out examples, all labels right in {percent(is_right.mean())}"
    error = f"calibration error {percent(calibration.error)}"

    def listed(row, chosen):
        numbers = np.flatnonzero(chosen[row])
        parts = [f"{escape(names[n], 60)} ({percent(probabilities[row, n])})" for n in numbers[:_MOST_NAMES]]
        rest = [f"{len(numbers) - _MOST_NAMES:,} more"] if len(numbers) > _MOST_NAMES else []
        return ", ".join(parts + rest) or "–"

    likely = np.clip(np.where(gold, probabilities, 1 - probabilities), 1e-300, None)
    worst = np.argsort(np.log(likely).mean(axis=1), kind="stable")[:MOST_EXAMPLES].tolist()
    rows = (["✓" if is_right[row] else "✗", listed(row, gold), listed(row, predicted), *cells(row)] for row in worst)
    picture = calibration.picture(f"Reliability: {error}", of="a label", share="share with it")
    return [
        View(
            "predictions/by label",
            f"{summary}, {error}\n\n### Precision and recall{limit}\n\n{scores.table(names, shown)}",
        ),
        View("predictions/calibration", picture, "All labels of all examples."),
        View("predictions/expected calibration error", calibration.error),
        View(
            "predictions/worst",
            markdown_table(["", "gold", "predicted", *header], rows),
            "The examples with the highest loss, and the probabilities of the labels.",
        ),
    ]
