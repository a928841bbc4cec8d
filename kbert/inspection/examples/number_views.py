"""What TensorBoard shows of a regressor's numbers beside the gold ones: pictures and a table.

Shapes: n examples.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from kbert.inspection.charts import residual_picture, scatter_picture
from kbert.inspection.examples.classification_views import MOST_EXAMPLES
from kbert.inspection.markdown import markdown_table
from kbert.inspection.view import View

MOST_POINTS = 2000
_PARTS = 5


@dataclasses.dataclass(frozen=True, eq=False)
class PredictedNumbers:
    """Gold and predicted numbers, float64 [n] each; pictures show the finite ones."""

    labels: np.ndarray
    predictions: np.ndarray

    @property
    def residuals(self) -> np.ndarray:
        """float64 [n]: prediction minus gold number."""
        with np.errstate(invalid="ignore"):  # inf - inf is not a number
            return np.asarray(self.predictions, "float64") - np.asarray(self.labels, "float64")

    def table(self) -> str:
        """A Markdown table of the residuals: of all examples, and of fifths by the gold number."""
        order = np.argsort(self.labels, kind="stable")
        parts = [part for part in np.array_split(order, _PARTS) if len(part)] if len(order) >= 2 * _PARTS else []
        rows = []
        for part in [order, *parts]:
            residuals, labels = self.residuals[part], np.asarray(self.labels)[part]
            mean, absolute, square = residuals.mean(), np.abs(residuals).mean(), np.sqrt(np.mean(residuals**2))
            span = "all" if part is order else f"{labels.min():.3g} to {labels.max():.3g}"
            rows.append([span, f"{mean:+.3g}", f"{absolute:.3g}", f"{square:.3g}", f"{len(part):,}"])
        header = ["gold", "mean residual", "mean absolute residual", "root mean square", "examples"]
        return markdown_table(header, rows)

    def scatter_picture(self, title: str = "") -> np.ndarray:
        """At most `MOST_POINTS` examples as evenly spread points; right predictions lie on the line."""
        drawn = np.flatnonzero(np.isfinite(self.residuals))
        rows = drawn[np.linspace(0, len(drawn) - 1, min(MOST_POINTS, len(drawn)), dtype="int64")]
        labels, predictions = (np.asarray(one, "float64")[rows] for one in (self.labels, self.predictions))
        return scatter_picture(labels, predictions, self._titled(title))

    def residual_picture(self, title: str = "") -> np.ndarray:
        """The number of examples by their residual, with a line at 0."""
        return residual_picture(self.residuals[np.isfinite(self.residuals)], self._titled(title))

    def _titled(self, title):
        """A title that says how many numbers are not drawn."""
        others = np.count_nonzero(~np.isfinite(self.residuals))
        return f"{title}\nnot drawn: {others:,} of {len(self.labels):,} are not finite" if others else title


def number_views(predictions, labels, header: Sequence[str], cells: Callable[[int], Sequence[str]]) -> list[View]:
    """Predicted against gold numbers [n], the residuals, and the examples that are most wrong.

    `cells` maps the number of an example to Markdown for its columns.
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
