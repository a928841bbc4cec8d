"""What TensorBoard shows of a classifier's predictions.

Shapes: N labels, n examples.
"""

from collections.abc import Callable, Sequence

import numpy as np

from kbert.inspection.examples.calibration import Calibration
from kbert.inspection.examples.confusion_matrix import ConfusionMatrix
from kbert.inspection.examples.label_scores import LabelScores
from kbert.inspection.markdown import escape, markdown_table, percent
from kbert.inspection.view import View

MOST_EXAMPLES = 10  # rows of a table of examples


def label_views(
    probabilities, labels, names: Sequence[str], header: Sequence[str], cells: Callable[[int], Sequence[str]]
) -> list[View]:
    """Confusion matrix, precision and recall by label, calibration, and the examples that are most wrong.

    Numbers are of all examples; tables of examples have `MOST_EXAMPLES` rows.

    Args:
        probabilities: float [n, N].
        labels: ints [n], the gold labels.
        names: of the N labels.
        cells: function of the number of an example that returns Markdown for these columns.

    Returns:
        list of `View`: texts, pictures, and the expected calibration error as a number.
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
    some = f" ({len(matrix.shown)} of {len(names):,} labels, those with the most errors)"
    some = some if len(matrix.shown) < len(names) else ""
    parts = [
        f"{summary}, {error}",
        f"### Precision and recall{some}",
        scores.table(names, matrix.shown),
        f"### Confusion matrix{some}",
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
    if len(names) > 2:  # of two labels both orders are the same
        gold = probabilities[np.arange(len(labels)), labels]
        worst = View(
            "predictions/worst",
            table(_first(-gold, np.ones(len(labels), bool))),
            "The examples with the highest loss: the gold label has the lowest probability.",
        )
        views.append(worst)
    return views


def _first(order, chosen):
    """The rows with the highest values, of those that are chosen."""
    rows = np.argsort(-order, kind="stable")
    return rows[chosen[rows]][:MOST_EXAMPLES].tolist()
