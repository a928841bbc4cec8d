"""What TensorBoard shows of a regressor's predictions.

Shapes: n examples.
"""

from collections.abc import Callable, Sequence

import numpy as np

from kbert.inspection.examples.label_views import MOST_EXAMPLES
from kbert.inspection.examples.predicted_numbers import PredictedNumbers
from kbert.inspection.markdown import markdown_table
from kbert.inspection.view import View


def number_views(predictions, labels, header: Sequence[str], cells: Callable[[int], Sequence[str]]) -> list[View]:
    """Predicted against gold numbers, the residuals, and the examples that are most wrong.

    Args:
        predictions, labels: float [n]; the labels are gold.
        cells: function of the number of an example that returns Markdown for these columns.
    """
    numbers = PredictedNumbers(np.asarray(labels, "float64"), np.asarray(predictions, "float64"))
    rows = np.argsort(-np.abs(numbers.residuals), kind="stable")[:MOST_EXAMPLES]
    worst = markdown_table(
        ["gold", "predicted", "residual", *header],
        (
            [f"{numbers.labels[row]:.4g}", f"{numbers.predictions[row]:.4g}", f"{numbers.residuals[row]:+.3g}"]
            + list(cells(row))
            for row in rows.tolist()
        ),
    )
    count = f"{len(numbers.labels):,} held-out examples"
    return [
        View(
            "predictions/residuals", f"{count}; a residual is the prediction minus the gold number\n\n{numbers.table()}"
        ),
        View("predictions/scatter plot", numbers.scatter_picture(f"Predicted against gold: {count}")),
        View("predictions/residual histogram", numbers.residual_picture(f"Residuals: {count}")),
        View("predictions/worst", worst, "The examples with the largest residuals."),
    ]
