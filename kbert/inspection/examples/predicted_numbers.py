"""A regressor's numbers beside the gold ones: pictures and a table.

Shapes: n examples.
"""

import dataclasses

import numpy as np

from kbert.inspection.canvas import BLUE, FAINT, INK, ORANGE, Canvas, nice_ticks
from kbert.inspection.markdown import markdown_table

MOST_POINTS = 2000
_LEFT, _TOP, _SIDE = 64, 48, 340  # points
_BARS = 20
_PARTS = 5


@dataclasses.dataclass(frozen=True, eq=False)
class PredictedNumbers:
    """Gold and predicted numbers; a residual is the prediction minus the gold number. Pictures show finite ones.

    Args:
        labels, predictions: float64 [n].
    """

    labels: np.ndarray
    predictions: np.ndarray

    @property
    def residuals(self) -> np.ndarray:
        """float64 [n]: by how much the predictions are too high."""
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
        """A point for each example, at most `MOST_POINTS` of them, evenly spread; right predictions lie on the line.

        Examples whose residual is not finite are counted instead.
        """
        drawn = np.flatnonzero(np.isfinite(self.residuals))
        rows = drawn[np.linspace(0, len(drawn) - 1, min(MOST_POINTS, len(drawn)), dtype="int64")]
        labels, predictions = (np.asarray(one, "float64")[rows] for one in (self.labels, self.predictions))
        low = float(min(labels.min(initial=np.inf), predictions.min(initial=np.inf)))
        high = float(max(labels.max(initial=-np.inf), predictions.max(initial=-np.inf)))
        low, high = (0.0, 1.0) if not len(rows) else (low - 0.5, high + 0.5) if low == high else (low, high)
        canvas, bottom = Canvas(_LEFT + _SIDE + 24, _TOP + _SIDE + 60, title), _TOP + _SIDE
        self._count_others(canvas)

        def place(value):
            return (value - low) / (high - low) * _SIDE

        for tick in nice_ticks(low, high):
            canvas.line([(_LEFT, bottom - place(tick)), (_LEFT + _SIDE, bottom - place(tick))], FAINT)
            canvas.line([(_LEFT + place(tick), bottom), (_LEFT + place(tick), _TOP)], FAINT)
            canvas.text(_LEFT - 8, bottom - place(tick), f"{tick:g}", anchor="rm")
            canvas.text(_LEFT + place(tick), bottom + 16, f"{tick:g}", anchor="mm")
        canvas.text(16, _TOP + _SIDE / 2, "predicted", turned=True)
        canvas.text(_LEFT + _SIDE / 2, bottom + 40, "gold", anchor="mm")
        for label, prediction in zip(labels, predictions, strict=True):
            canvas.disc(_LEFT + place(label), bottom - place(prediction), 3, (*BLUE, 110))
        canvas.line([(_LEFT, bottom), (_LEFT + _SIDE, _TOP)], INK, dash=6)
        return canvas.pixels()

    def residual_picture(self, title: str = "") -> np.ndarray:
        """The number of examples by their residual, with a line at 0; those that are not finite are only counted."""
        residuals = self.residuals[np.isfinite(self.residuals)]
        reach = float(np.abs(residuals).max(initial=0.0)) or 1.0
        counts, edges = np.histogram(residuals, bins=_BARS, range=(-reach, reach))
        most, height = max(float(counts.max()), 1.0), 200
        canvas, bottom = Canvas(_LEFT + _SIDE + 24, _TOP + height + 60, title), _TOP + height
        self._count_others(canvas)

        def place(value):
            return _LEFT + (value + reach) / (2 * reach) * _SIDE

        for tick in nice_ticks(0, most, 4):
            y = bottom - tick / most * height
            canvas.line([(_LEFT, y), (_LEFT + _SIDE, y)], FAINT)
            canvas.text(_LEFT - 8, y, f"{tick:g}", anchor="rm")
        for count, left, right in zip(counts, edges[:-1], edges[1:], strict=True):
            if count:
                top = bottom - count / most * height
                canvas.rectangle(place(left) + 1, top, place(right) - 1, bottom, fill=BLUE)
        for tick in nice_ticks(-reach, reach):
            canvas.text(place(tick), bottom + 16, f"{tick:g}", anchor="mm")
        canvas.line([(place(0.0), _TOP), (place(0.0), bottom)], INK, dash=6)
        canvas.text(16, _TOP + height / 2, "examples", turned=True)
        canvas.text(_LEFT + _SIDE / 2, bottom + 40, "predicted minus gold", anchor="mm")
        return canvas.pixels()

    def _count_others(self, canvas):
        if others := np.count_nonzero(~np.isfinite(self.residuals)):
            canvas.text(12, 37, f"not drawn: {others:,} of {len(self.labels):,} are not finite", size=11, colour=ORANGE)
