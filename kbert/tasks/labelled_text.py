"""Labelled texts: the label column of a table, and the examples of the text tasks in memory.

Shapes: n rows, N labels.
"""

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kbert.checks import shown
from kbert.tasks.examples import Examples
from kbert.tasks.table import Table, check_texts


def distinct_labels(values: Iterable[str]) -> list[str]:
    """The distinct labels without spaces around them, sorted, as numbers if all are integers (2 before 10)."""
    labels = sorted({value.strip() for value in values})
    try:
        return sorted(labels, key=int)
    except ValueError:
        return labels


def shown_labels(labels: Sequence[str]) -> list[str]:
    """The labels as messages list them: the first 20, each cut at 80 characters."""
    first = [label if len(label) <= 80 else f"{label[:79]}…" for label in labels[:20]]
    return first if len(labels) <= 20 else [*first, "…"]


def find_labels(wanted: Sequence[str], labels: Sequence[str]) -> list[int]:
    """The index into `labels` of each wanted label, -1 where there is none.

    "true" is found as "True", and "1" as "1.0": the same table read by pandas has other spellings than its file.
    """
    index = {}
    by_value = {}
    for n, label in enumerate(labels):
        index[label] = n
        by_value[_value(label)] = -1 if _value(label) in by_value else n
    return [index.get(label, by_value.get(_value(label), -1)) for label in wanted]


def _value(label):
    if label.lower() in ("true", "false"):
        return label.lower()
    return float(label) if re.fullmatch(r"-?[0-9]+(\.[0-9]*)?", label) else label


def label_ids(table: Table, column: str, labels: Sequence[str]) -> np.ndarray:
    """Each row's index into `labels`, int32 [n]."""
    index = {label: i for i, label in enumerate(labels)}
    ids = np.empty(len(table.lines), "int32")
    for row, value in enumerate(table[column]):
        value = value.strip()
        if value not in index:
            raise ValueError(
                f"{table.where(row)}: expected {column!r} to be one of {shown_labels(labels)}. Received: {shown(value)}"
            )
        ids[row] = index[value]
    return ids


def split_labels(values: Iterable[str], separator: str) -> list[list[str]]:
    """The labels in each cell of a column that holds several. An empty cell has none."""
    return [[label.strip() for label in value.split(separator) if label.strip()] for value in values]


def label_sets(table: Table, column: str, labels: Sequence[str], separator: str) -> np.ndarray:
    """Which of the N `labels` each row has, int32 [n, N] of 0 and 1."""
    index = {label: i for i, label in enumerate(labels)}
    is_on = np.zeros((len(table.lines), len(labels)), "int32")
    for row, labels_of_row in enumerate(split_labels(table[column], separator)):
        is_on[row, [index[label] for label in labels_of_row]] = 1
    return is_on


_SWITCHES = {"0": 0, "0.0": 0, "false": 0, "1": 1, "1.0": 1, "true": 1}


def on_or_off(cell: Any) -> int | None:
    """1 or 0 for a cell that says whether a label is on, such as 1, "0" or True. None for any other cell."""
    return _SWITCHES.get(str(cell).strip().lower())


def label_columns(table: Table, columns: Sequence[str]) -> np.ndarray:
    """Which labels each row has, from a column of 0 and 1 for each of the N labels, int32 [n, N]."""
    is_on = np.zeros((len(table.lines), len(columns)), "int32")
    for number, column in enumerate(columns):
        for row, cell in enumerate(table[column]):
            if (value := on_or_off(cell)) is None:
                raise ValueError(
                    f"{table.where(row)}: the label {column!r} must be 0 or 1. Received: {table.shown(cell)}"
                )
            is_on[row, number] = value
    return is_on


def check_label_numbers(labels: np.ndarray, num_labels: int) -> None:
    """Raises a ValueError unless class numbers [n] are in [0, N), or tables of labels [n, N] have N columns."""
    from kbert.optim.cross_entropy import check_labels  # not above: readers of labels need no Keras

    if labels.ndim == 1:
        check_labels(labels, num_labels)
    elif labels.shape[1] != num_labels:
        raise ValueError(f"Expected examples with {num_labels} labels. Received: {labels.shape[1]}")


def check_labels_given(table: Table, column: str) -> None:
    """Raises a ValueError that names file and line where the label column is empty or blank."""
    for row, value in enumerate(table[column]):
        if not value.strip():
            raise ValueError(f"{table.where(row)}: expected a label in {column!r}. Received: {table.shown(value)}")


def label_scores(table: Table, column: str, low: float = -math.inf, high: float = math.inf) -> np.ndarray:
    """Each row's label as a finite number in [low, high], float32 [n]."""
    scores = np.empty(len(table.lines), "float32")
    for row, value in enumerate(table[column]):
        try:
            with np.errstate(over="ignore"):
                score = float(np.float32(value))
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise ValueError(f"{table.where(row)}: expected a number in {column!r}. Received: {table.shown(value)}")
        if not low <= score <= high:
            raise ValueError(
                f"{table.where(row)}: expected {column!r} in [{low:g}, {high:g}]. Received: {shown(value)}"
            )
        scores[row] = score
    return scores


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LabelledText(Examples):
    """Texts, or pairs of texts, with one label each or any number of labels each."""

    texts: Sequence[str]
    # [n]: int32 index into the label list, or float32 score. With several labels a text: int32 [n, N], 0 and 1
    labels: np.ndarray
    text_pairs: Sequence[str] | None = None
    skipped: int = 0  # rows of the file that were skipped
    label_names: Sequence[str] | None = None  # the label list; None: scores, or indices into the model's
    path: str | None = None
    lines: Sequence[int] = ()

    row_fields = ("texts", "labels", "text_pairs")

    def __post_init__(self):
        super().__post_init__()
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
        labels = self.labels.tolist()
        names = self.label_names
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
        """SHA-256 of the rows and of the names of their labels, since an index may mean another label elsewhere."""
        if self.label_names is None:
            return super().fingerprint()
        return hashlib.sha256((super().fingerprint() + json.dumps(list(self.label_names))).encode()).hexdigest()

    def baseline(self) -> float | np.ndarray:
        """The most frequent label's index, the mean of numbers, or int32 [N], 1 for labels that most texts have."""
        if self.multi_label:
            return (self.labels.mean(axis=0) > 0.5).astype("int32")
        return float(self.labels.mean()) if self.regression else int(np.bincount(self.labels).argmax())

    def with_labels(self, names: Sequence[str]) -> "LabelledText":
        """These examples, with labels as indices into a model's list of labels."""
        if self.regression or self.label_names is None or list(self.label_names) == list(names):
            return self
        numbers = find_labels(self.label_names, names)
        if self.multi_label:
            return self._with_label_columns(numbers, tuple(names))
        new = np.array(numbers, "int32")[self.labels]
        if (unknown := np.flatnonzero(new < 0)).size:
            row = int(unknown[0])
            received = self.label_names[self.labels[row]]
            raise ValueError(
                f"{self.where(row)}: expected a label of {shown_labels(names)}. Received: {shown(received)}"
            )
        return dataclasses.replace(self, labels=new, label_names=tuple(names))

    def _with_label_columns(self, numbers, names):
        new = np.zeros((len(self.labels), len(names)), "int32")
        for column, name, number in zip(self.labels.T, self.label_names, numbers, strict=True):
            if number < 0 and column.any():
                row = int(np.flatnonzero(column)[0])
                raise ValueError(
                    f"{self.where(row)}: expected labels of {shown_labels(names)}. Received: {shown(name)}"
                )
            if number >= 0:
                new[:, number] |= column
        return dataclasses.replace(self, labels=new, label_names=names)


def from_table(
    table: Table,
    *,
    text: str,
    label: str | Sequence[str],
    text_pair: str | None = None,
    labels: Sequence[str] | None = None,
    separator: str | None = None,
    score_range: tuple[float, float] = (-np.inf, np.inf),
) -> LabelledText:
    """The labelled texts of a table's columns. A warning is logged if some texts are empty.

    `label` is one column, or a column of 0 and 1 for each label. Of one column, `labels` is the label list (None:
    numbers in `score_range`), and `separator` stands between several labels of a text.
    """
    columns = [name for name in (text, text_pair) if name is not None]
    check_texts(table, columns)
    if not isinstance(label, str):
        labels = label
        targets = label_columns(table, label)
    elif labels is None:
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
