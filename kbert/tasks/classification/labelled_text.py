"""Labelled texts in memory: what the readers of text tasks give and fine-tuning takes."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from kbert.tasks.classification.labels import label_ids, label_scores
from kbert.tasks.table import Table


@dataclasses.dataclass(frozen=True, eq=False)
class LabelledText:
    """Texts, or pairs of texts, with a label each.

    Example::

        examples = LabelledText(["good", "bad"], np.array([1, 0], "int32"))
        few, rest = examples.split(1, seed=0)
    """

    texts: Sequence[str]
    labels: np.ndarray  # [examples]: int32 index into the label list, or float32 score
    text_pairs: Sequence[str] | None = None
    skipped: int = 0  # rows of the file that were left out

    def __post_init__(self):
        pairs = self.texts if self.text_pairs is None else self.text_pairs
        if not len(self.texts) == len(self.labels) == len(pairs) or not len(self.texts):
            raise ValueError(
                "Expected as many texts, text pairs and labels, at least one. "
                f"Received: {len(self.texts)}, {len(pairs)} and {len(self.labels)}"
            )
        wrong = np.flatnonzero(~np.isfinite(self.labels) if self.regression else self.labels < 0)
        if wrong.size:
            expected = "a finite number" if self.regression else "an index into the label list, from 0"
            raise ValueError(f"Expected the label of example {wrong[0]} to be {expected}. "
                             f"Received: {self.labels[wrong[0]]}")  # fmt: skip

    def __len__(self):
        return len(self.texts)

    @property
    def pair(self) -> bool:
        """Whether each example is a pair of texts."""
        return self.text_pairs is not None

    @property
    def columns(self) -> dict[str, Sequence[str]]:
        """The strings, by the names that a preprocessor has for them."""
        return {"text": self.texts} | ({"text_pair": self.text_pairs} if self.pair else {})

    @property
    def regression(self) -> bool:
        """Whether the labels are numbers to be met, not classes."""
        return not np.issubdtype(self.labels.dtype, np.integer)

    def take(self, rows) -> "LabelledText":
        """The examples of the given row numbers, in their order."""
        pairs = None if self.text_pairs is None else [self.text_pairs[i] for i in rows]
        return LabelledText([self.texts[i] for i in rows], self.labels[np.asarray(rows)], pairs)

    def split(self, count: int, seed: int = 0) -> tuple["LabelledText", "LabelledText"]:
        """`count` examples drawn at random, and the others; the same for the same number of examples, count and seed.

        A larger draw with the same seed contains the smaller one.
        """
        if not 0 < count < len(self):
            raise ValueError(f"Expected to draw 1 to {len(self) - 1} of {len(self)} examples. Received: {count}")
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(self))
        return self.take(np.sort(order[:count])), self.take(np.sort(order[count:]))


def from_table(table: Table, *, text: str, label: str, text_pair: str | None = None,
               labels: Sequence[str] | None = None, score_range=(-np.inf, np.inf)) -> LabelledText:  # fmt: skip
    """The labelled texts of a table's columns.

    Args:
        table: what `read_table` gave.
        text, text_pair, label: names of columns.
        labels: the label list; None for regression, where the label column holds numbers in `score_range`.

    Raises:
        ValueError: a label that is not in the list, or no number in the range; texts that are all empty; the message
            names file and line.
    """
    columns = [name for name in (text, text_pair) if name is not None]
    if not any(cell.strip() for name in columns for cell in table[name]):
        rows = f"{len(table.lines)} empty ones" if len(table.lines) > 1 else "an empty one"
        raise ValueError(
            f"{table.where(0)}: expected texts in {' and '.join(map(repr, columns))}. Received: {rows}; is it another "
            "column that holds them?"
        )
    if labels is None:
        targets = label_scores(table, label, *score_range)
    else:
        targets = label_ids(table, label, labels)
    return LabelledText(table[text], targets, None if text_pair is None else table[text_pair], table.skipped)
