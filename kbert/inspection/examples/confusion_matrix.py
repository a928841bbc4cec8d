"""The confusion matrix: as numbers, as a table and as a picture.

Shapes: N labels, m rows and columns of the matrix, n examples.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from kbert.inspection.charts import confusion_picture
from kbert.inspection.examples.label_scores import LabelScores
from kbert.inspection.markdown import escape, markdown_table

MOST_LABELS = 20
OTHERS = "other labels"


@dataclasses.dataclass(frozen=True, eq=False)
class ConfusionMatrix:
    """How often each label was predicted for each label.

    Of more than `MOST_LABELS` labels, those with the most errors have rows and columns, and the others share one.

    Args:
        counts: int64 [m, m], a row for each gold label, a column for each predicted one.
        names: m strings.
        shown: numbers of the labels that have a row of their own.
    """

    counts: np.ndarray
    names: Sequence[str]
    shown: Sequence[int]

    @classmethod
    def from_predictions(cls, labels, predictions, names: Sequence[str], most: int = MOST_LABELS) -> "ConfusionMatrix":
        """Counts labels and predictions, ints [n] each, of the labels `names`."""
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
        """Cells as dark as their share of the row, with their numbers; the diagonal, what is right, has a frame."""
        return confusion_picture(self.counts, self.names, title)
