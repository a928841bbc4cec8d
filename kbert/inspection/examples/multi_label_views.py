"""What TensorBoard shows of a classifier whose labels are each on or off.

Shapes: N labels, n examples.
"""

from collections.abc import Callable, Sequence

import numpy as np

from kbert.inspection.examples.calibration import Calibration
from kbert.inspection.examples.confusion_matrix import MOST_LABELS
from kbert.inspection.examples.label_scores import LabelScores
from kbert.inspection.examples.label_views import MOST_EXAMPLES
from kbert.inspection.markdown import escape, markdown_table, percent
from kbert.inspection.view import View

_MOST_NAMES = 8  # of labels in a cell


def multi_label_views(
    probabilities,
    labels,
    names: Sequence[str],
    thresholds,
    header: Sequence[str],
    cells: Callable[[int], Sequence[str]],
) -> list[View]:
    """Precision and recall by label, reliability of all probabilities, and the examples with the highest loss.

    Numbers are of all examples; the table of labels has `MOST_LABELS` rows, that of examples `MOST_EXAMPLES`.

    Args:
        probabilities: float [n, N].
        labels: [n, N], 1 where a label is on.
        names: of the N labels.
        thresholds: a label is predicted above it; a number, or N of them.
        cells: function of the number of an example that returns Markdown for these columns.

    Returns:
        list of `View`: texts, a picture, and the calibration error as a number.
    """
    probabilities, gold = np.asarray(probabilities, "float64"), np.asarray(labels, bool)
    predicted = probabilities > np.asarray(thresholds)
    scores = LabelScores(*(np.count_nonzero(one, axis=0) for one in (gold & predicted, gold, predicted)))
    calibration = Calibration.from_confidence(probabilities.ravel(), gold.ravel())
    is_right = (gold == predicted).all(axis=1)
    shown = np.sort(np.argsort(-scores.errors, kind="stable")[:MOST_LABELS]).tolist()
    some = f" ({len(shown)} of {len(names):,} labels, those with the most errors)" if len(shown) < len(names) else ""
    summary = f"{len(gold):,} held-out examples, all labels right in {percent(is_right.mean())}"
    error = f"calibration error {percent(calibration.error)}"

    def listed(row, chosen):
        found = np.flatnonzero(chosen[row])
        parts = [f"{escape(names[n], 60)} ({percent(probabilities[row, n])})" for n in found[:_MOST_NAMES]]
        more = [f"{len(found) - _MOST_NAMES:,} more"] if len(found) > _MOST_NAMES else []
        return ", ".join(parts + more) or "–"

    likely = np.clip(np.where(gold, probabilities, 1 - probabilities), 1e-300, None)
    worst = np.argsort(np.log(likely).mean(axis=1), kind="stable")[:MOST_EXAMPLES].tolist()
    rows = (["✓" if is_right[row] else "✗", listed(row, gold), listed(row, predicted), *cells(row)] for row in worst)
    picture = calibration.picture(f"Reliability: {error}", of="a label", share="share with it")
    return [
        View(
            "predictions/by label",
            f"{summary}, {error}\n\n### Precision and recall{some}\n\n{scores.table(names, shown)}",
        ),
        View("predictions/calibration", picture, "All labels of all examples."),
        View("predictions/expected calibration error", calibration.error),
        View(
            "predictions/worst",
            markdown_table(["", "gold", "predicted", *header], rows),
            "The examples with the highest loss, and the probabilities of the labels.",
        ),
    ]
