"""The confusion matrix: as numbers, as a table and as a picture.

Shapes: N labels, m rows and columns of the matrix, n examples.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from kbert.inspection.canvas import BLUE, FAINT, INK, PAPER, Canvas, picture_names
from kbert.inspection.examples.label_scores import LabelScores
from kbert.inspection.markdown import escape, markdown_table

MOST_LABELS = 20
OTHERS = "other labels"
_LONGEST = 24  # characters of a name in the picture


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
        size, cell = len(self.names), 64 if len(self.names) <= 8 else 44
        names = [name if len(name) <= _LONGEST else name[: _LONGEST - 3] + "..." for name in picture_names(self.names)]
        sheet = Canvas(1, 1)
        left = 48 + max(sheet.text_width(name) for name in names)
        top = 64 + (max(sheet.text_width(name) for name in names) if size > 4 else 16)
        width = max(left + size * cell + 24, sheet.text_width(title, 15) + 24)
        canvas = Canvas(int(width), int(top + size * cell + 20), title)
        canvas.text(left + size * cell / 2, 42, "predicted", colour=INK, anchor="mm")
        canvas.text(18, top + size * cell / 2, "gold", turned=True)
        for n, name in enumerate(names):
            middle = (n + 0.5) * cell
            canvas.text(left - 8, top + middle, name, anchor="rm")
            if size > 4:
                canvas.text(left + middle, top - 8 - canvas.text_width(name) / 2, name, turned=True)
            else:
                canvas.text(left + middle, top - 12, name[: cell // 5], anchor="mm")
        shares = self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1)
        for n in range(size):
            for m in range(size):
                box = left + m * cell, top + n * cell, left + (m + 1) * cell, top + (n + 1) * cell
                share = float(shares[n, m])
                fill = tuple(round(p + (b - p) * share) for p, b in zip(PAPER, BLUE, strict=True))
                canvas.rectangle(*box, fill=fill, outline=FAINT)
                if self.counts[n, m]:
                    ink, middle = (PAPER if share > 0.85 else INK), ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
                    canvas.text(*middle, _short(int(self.counts[n, m])), anchor="mm", colour=ink)
        for n in range(size):
            place = n * cell + 2
            canvas.rectangle(left + place, top + place, left + place + cell - 4, top + place + cell - 4, outline=INK)
        return canvas.pixels()


def _short(count):
    return f"{count:,}" if count < 10_000 else f"{count / 1000:.0f}k"
