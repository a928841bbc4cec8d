"""Labelled texts in memory: the result of the text tasks' readers, and the input of fine-tuning.

Shapes: N labels.
"""

import dataclasses
import hashlib
import json
from collections.abc import Sequence

import numpy as np

from kbert.checks import shown
from kbert.tasks.examples import Examples
from kbert.tasks.labels import label_ids, label_scores, label_sets, shown_labels
from kbert.tasks.table import Table, check_texts


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LabelledText(Examples):
    """Texts, or pairs of texts, with a label each, or with any number of labels each.

    Raises:
        ValueError: different numbers of texts and labels, no texts, an invalid label.
    """

    texts: Sequence[str]
    # [examples]: int32 index into the label list, or float32 score; several labels: int32 [examples, labels], 0 and 1
    labels: np.ndarray
    text_pairs: Sequence[str] | None = None
    skipped: int = 0  # rows of the file that were skipped
    label_names: Sequence[str] | None = None  # the label list; None: scores, or indices into the model's
    path: str | None = None
    lines: Sequence[int] = ()

    row_fields = ("texts", "labels", "text_pairs")

    def __post_init__(self):
        pairs = self.texts if self.text_pairs is None else self.text_pairs
        if not len(self.texts) == len(self.labels) == len(pairs) or not len(self.texts):
            raise ValueError(
                "Expected as many texts, text pairs and labels, at least one. "
                f"Received: {len(self.texts)}, {len(pairs)} and {len(self.labels)}"
            )
        if self.multi_label and not np.isin(self.labels, (0, 1)).all():
            raise ValueError("Expected a label of an example to be on or off, 1 or 0. Received: other numbers")
        wrong = np.flatnonzero(~np.isfinite(self.labels) if self.regression else self.labels < 0)
        if wrong.size:
            expected = "a finite number" if self.regression else "an index into the label list, from 0"
            raise ValueError(
                f"Expected the label of example {wrong[0]} to be {expected}. Received: {self.labels[wrong[0]]}"
            )

    @property
    def pair(self) -> bool:
        """Whether each example is a pair of texts."""
        return self.text_pairs is not None

    @property
    def columns(self) -> dict[str, Sequence[str]]:
        """The strings, by the names of the preprocessor's inputs."""
        return {"text": self.texts} | ({"text_pair": self.text_pairs} if self.pair else {})

    @property
    def regression(self) -> bool:
        """Whether the labels are numbers instead of classes."""
        return not np.issubdtype(self.labels.dtype, np.integer)

    @property
    def multi_label(self) -> bool:
        """Whether a text may have several labels, or none."""
        return self.labels.ndim == 2

    def _rows(self):
        labels, names = self.labels.tolist(), self.label_names
        if names is not None and self.multi_label:
            labels = [[name for name, is_on in zip(names, row, strict=True) if is_on] for row in labels]
        elif names is not None:
            labels = [names[label] for label in labels]
        return {name: list(texts) for name, texts in self.columns.items()} | {"label": labels}

    def _strata(self):
        if self.regression or self.multi_label:
            received = "numbers" if self.regression else "several labels a text"
            raise ValueError(f"split: `stratify` is for texts with one label each. Received: {received}")
        return self.labels

    def fingerprint(self) -> str:
        """SHA-256 of the rows and of the names of their labels: the same indices may mean other labels."""
        if self.label_names is None:
            return super().fingerprint()
        return hashlib.sha256((super().fingerprint() + json.dumps(list(self.label_names))).encode()).hexdigest()

    def baseline(self) -> float | np.ndarray:
        """The index of the most frequent label; for regression the mean; of several labels those of most texts, [N]."""
        if self.multi_label:
            return (self.labels.mean(axis=0) > 0.5).astype("int32")
        return float(self.labels.mean()) if self.regression else int(np.bincount(self.labels).argmax())

    def with_labels(self, names: Sequence[str]) -> "LabelledText":
        """The same examples, with labels as indices into the list of a model's labels.

        Raises:
            ValueError: a label that is not in that list; the message names file and line.
        """
        if self.regression or self.label_names is None or list(self.label_names) == list(names):
            return self
        index = {name: n for n, name in enumerate(names)}
        if self.multi_label:
            return self._with_label_columns(index, tuple(names))
        new = np.array([index.get(name, -1) for name in self.label_names], "int32")[self.labels]
        if (unknown := np.flatnonzero(new < 0)).size:
            row = int(unknown[0])
            received = self.label_names[self.labels[row]]
            raise ValueError(
                f"{self.where(row)}: expected a label of {shown_labels(names)}. Received: {shown(received)}"
            )
        return dataclasses.replace(self, labels=new, label_names=tuple(names))

    def _with_label_columns(self, index, names):
        new = np.zeros((len(self.labels), len(names)), "int32")
        for column, name in zip(self.labels.T, self.label_names, strict=True):
            if name not in index and column.any():
                row = int(np.flatnonzero(column)[0])
                raise ValueError(
                    f"{self.where(row)}: expected labels of {shown_labels(names)}. Received: {shown(name)}"
                )
            if name in index:
                new[:, index[name]] = column
        return dataclasses.replace(self, labels=new, label_names=names)


def from_table(
    table: Table,
    *,
    text: str,
    label: str,
    text_pair: str | None = None,
    labels: Sequence[str] | None = None,
    separator: str | None = None,
    score_range=(-np.inf, np.inf),
) -> LabelledText:
    """The labelled texts of a table's columns; a warning is logged if some texts are empty.

    Args:
        table: what `read_table` gave.
        text, text_pair, label: names of columns.
        labels: the label list; None for regression, if the label column holds numbers in `score_range`.
        separator: between the labels of a text, where it may have several; None: it has one.

    Raises:
        ValueError: a label that is not in the list, or not a number in the range; texts that are all empty; the message
            names file and line.
    """
    columns = [name for name in (text, text_pair) if name is not None]
    check_texts(table, columns)
    if labels is None:
        targets = label_scores(table, label, *score_range)
    elif separator is not None:
        targets = label_sets(table, label, labels, separator)
    else:
        targets = label_ids(table, label, labels)
    return LabelledText(
        table[text],
        targets,
        None if text_pair is None else table[text_pair],
        table.skipped,
        None if labels is None else tuple(labels),
        table.path,
        table.lines,
    )
