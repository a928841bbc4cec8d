"""How far a classifier's confidence can be trusted: the reliability of its probabilities.

Shapes: n examples, b bins.
"""

import dataclasses

import numpy as np

from kbert.inspection.charts import reliability_picture
from kbert.inspection.markdown import markdown_table, percent


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
        return reliability_picture(self.counts, self.confidence, self.accuracy, title, of, share)
