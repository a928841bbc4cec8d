"""Precision and recall of each label.

Shapes: N labels, n examples.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from kbert.inspection.markdown import escape, markdown_table, percent


@dataclasses.dataclass(frozen=True, eq=False)
class LabelScores:
    """How often each of N labels was right, given and predicted.

    Args:
        right, given, predicted: int64 [N].
    """

    right: np.ndarray
    given: np.ndarray
    predicted: np.ndarray

    @classmethod
    def from_predictions(cls, labels, predictions, num_labels: int) -> "LabelScores":
        """Counts labels and predictions, ints [n] each."""
        labels, predictions = np.asarray(labels), np.asarray(predictions)
        right = labels[labels == predictions]
        return cls(*(np.bincount(one, minlength=num_labels) for one in (right, labels, predictions)))

    @property
    def precision(self) -> np.ndarray:
        """float64 [N]: of the predictions of a label the share that is right, NaN where there are none."""
        return _share(self.right, self.predicted)

    @property
    def recall(self) -> np.ndarray:
        """float64 [N]: of the examples with a label the share that is predicted so, NaN where there are none."""
        return _share(self.right, self.given)

    @property
    def f1(self) -> np.ndarray:
        """float64 [N]: the harmonic mean of both, NaN for a label that neither is given nor predicted."""
        return _share(2 * self.right, self.given + self.predicted)

    @property
    def errors(self) -> np.ndarray:
        """int64 [N]: the examples with the label, or predicted to have it, that are wrong."""
        return self.given + self.predicted - 2 * self.right

    def table(self, names: Sequence[str], shown) -> str:
        """A Markdown table with a row for each label of `shown`, in that order; "–" where a share is undefined."""
        rows = []
        for n in shown:
            shares = [percent(float(one[n])) for one in (self.precision, self.recall, self.f1)]
            rows.append([escape(names[n], 60), *shares, f"{self.given[n]:,}", f"{self.predicted[n]:,}"])
        return markdown_table(["label", "precision", "recall", "F1", "examples", "predicted"], rows)


def _share(part, whole):
    return np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)
