"""How far a classifier's confidence can be trusted: the reliability of its probabilities.

Shapes: n examples, b bins.
"""

import dataclasses

import numpy as np

from kbert.inspection.canvas import BLUE, FAINT, ORANGE, Canvas
from kbert.inspection.markdown import markdown_table, percent

_LEFT, _TOP, _SIDE, _COUNTS = 64, 48, 300, 70  # points: margins, the chart, the bars of counts below it


@dataclasses.dataclass(frozen=True, eq=False)
class Calibration:
    """Examples in bins of equal width by the probability of the predicted label.

    Args:
        counts: int64 [b], the examples of each bin.
        confidence: float64 [b], their mean probability of the predicted label, NaN for an empty bin.
        accuracy: float64 [b], the share of them that is right, NaN for an empty bin.

    Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", section 2.
    """

    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray

    @classmethod
    def from_confidence(cls, confidence, is_right, bins: int = 10) -> "Calibration":
        """Sorts n predictions into bins; a probability on the border of two belongs to the lower one."""
        confidence, is_right = np.asarray(confidence, "float64"), np.asarray(is_right, bool)
        places = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
        counts = np.bincount(places, minlength=bins)
        sums = (np.bincount(places, weights, bins) for weights in (confidence, is_right))
        return cls(counts, *(np.divide(one, counts, out=np.full(bins, np.nan), where=counts > 0) for one in sums))

    @property
    def error(self) -> float:
        """The expected calibration error: the mean distance of confidence and accuracy, by the examples of the bins."""
        used = self.counts > 0
        gaps = np.abs(self.confidence - self.accuracy)[used]
        return float(np.sum(self.counts[used] * gaps) / self.counts.sum())

    def table(self) -> str:
        """A Markdown table of the bins that have examples."""
        rows, bins = [], len(self.counts)
        for n in np.flatnonzero(self.counts):
            confidence, accuracy = float(self.confidence[n]), float(self.accuracy[n])
            verdict = (
                "too sure" if confidence > accuracy else "not sure enough" if confidence < accuracy else "as it is"
            )
            span = f"{100 * n / bins:.0f} to {100 * (n + 1) / bins:.0f}%"
            rows.append([span, percent(confidence), percent(accuracy), verdict, f"{self.counts[n]:,}"])
        return markdown_table(["probability", "mean", "accuracy", "the model is", "examples"], rows)

    def picture(self, title: str = "", of: str = "the predicted label", share: str = "accuracy") -> np.ndarray:
        """The reliability diagram: accuracy as bars, the gap to the confidence as a line, and the counts below.

        Args:
            of: whose probability it is.
            share: what the bars show, in one or two words.

        Returns:
            uint8 [height, width, 3].
        """
        bins, bottom = len(self.counts), _TOP + _SIDE
        canvas = Canvas(_LEFT + _SIDE + 150, bottom + _COUNTS + 64, title)
        for tick in (0, 0.25, 0.5, 0.75, 1):
            y = bottom - tick * _SIDE
            canvas.line([(_LEFT, y), (_LEFT + _SIDE, y)], FAINT)
            canvas.text(_LEFT - 8, y, percent(tick), anchor="rm")
            canvas.text(_LEFT + tick * _SIDE, bottom + _COUNTS + 22, percent(tick), anchor="mm")
        canvas.text(16, _TOP + _SIDE / 2, share, turned=True)
        canvas.text(_LEFT + _SIDE / 2, bottom + _COUNTS + 44, f"probability of {of}", anchor="mm")
        for n in np.flatnonzero(self.counts):
            left, right = _LEFT + (n + 0.08) * _SIDE / bins, _LEFT + (n + 0.92) * _SIDE / bins
            y, aim = bottom - self.accuracy[n] * _SIDE, bottom - self.confidence[n] * _SIDE
            canvas.rectangle(left, y, right, bottom, fill=(*BLUE, 200))
            canvas.line([((left + right) / 2, y), ((left + right) / 2, aim)], ORANGE, width=2)
            canvas.line([(left, aim), (right, aim)], ORANGE, width=3)
            height = (_COUNTS - 16) * self.counts[n] / self.counts.max()
            canvas.rectangle(left, bottom + _COUNTS + 8 - height, right, bottom + _COUNTS + 8, fill=(*BLUE, 110))
        canvas.line([(_LEFT, bottom), (_LEFT + _SIDE, _TOP)], dash=6)
        canvas.line([(_LEFT, bottom), (_LEFT + _SIDE, bottom)])
        for n, (text, colour) in enumerate(((f"{share} (bar)", BLUE), ("confidence (line)", ORANGE))):
            canvas.text(_LEFT + _SIDE + 14, _TOP + 12 + 20 * n, text, colour=colour)
        canvas.text(_LEFT + _SIDE + 14, _TOP + 52, "perfect (dashed)")
        canvas.text(_LEFT + _SIDE + 14, bottom + _COUNTS / 2 + 8, "examples")
        return canvas.pixels()
