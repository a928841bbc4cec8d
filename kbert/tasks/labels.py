"""The label column of a table: which labels there are, and each row's as a number.

Shapes: n rows, N labels.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from kbert.checks import shown
from kbert.tasks.table import Table


def distinct_labels(values: Iterable[str]) -> list[str]:
    """The distinct labels, sorted, so that a label's index does not depend on the order of the rows.

    Labels that are all integers are sorted as numbers (2 before 10), others by code point. Spaces around a label are
    not part of it.
    """
    labels = sorted({value.strip() for value in values})
    try:
        return sorted(labels, key=int)
    except ValueError:
        return labels


def shown_labels(labels: Sequence[str]) -> list[str]:
    """The labels as messages list them: the first 20, each cut at 80 characters."""
    first = [label if len(label) <= 80 else f"{label[:79]}…" for label in labels[:20]]
    return first if len(labels) <= 20 else [*first, "…"]


def label_ids(table: Table, column: str, labels: Sequence[str]) -> np.ndarray:
    """Each row's index into `labels`, int32 [rows].

    Raises:
        ValueError: an empty or unknown label; the message names file and line.
    """
    index = {label: i for i, label in enumerate(labels)}
    ids = np.empty(len(table.lines), "int32")
    for row, value in enumerate(table[column]):
        value = value.strip()
        if value not in index:
            known = shown_labels(labels)
            raise ValueError(f"{table.where(row)}: expected {column!r} to be one of {known}. Received: {shown(value)}")
        ids[row] = index[value]
    return ids


def split_labels(values: Iterable[str], separator: str) -> list[list[str]]:
    """The labels in each cell of a column that holds several; of an empty cell none.

    Example::

        split_labels(["funny|sad", "", "sad"], "|")  # [["funny", "sad"], [], ["sad"]]
    """
    return [[label.strip() for label in value.split(separator) if label.strip()] for value in values]


def label_sets(table: Table, column: str, labels: Sequence[str], separator: str) -> np.ndarray:
    """Which of `labels` each row has, int32 [rows, labels] of 0 and 1.

    Raises:
        ValueError: an unknown label; the message names file and line.
    """
    index = {label: i for i, label in enumerate(labels)}
    is_on = np.zeros((len(table.lines), len(labels)), "int32")
    for row, found in enumerate(split_labels(table[column], separator)):
        if unknown := [label for label in found if label not in index]:
            known = shown_labels(labels)
            raise ValueError(
                f"{table.where(row)}: expected {column!r} to hold labels of {known}. Received: {shown(unknown)}"
            )
        is_on[row, [index[label] for label in found]] = 1
    return is_on


def check_label_numbers(labels: np.ndarray, num_labels: int) -> None:
    """Raises a ValueError unless class numbers [n], or labels that are on or off [n, N], are those of N labels."""
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
    """Each row's label as a finite number, float32 [rows].

    Raises:
        ValueError: not a number, one that is infinite in float32, or one outside [low, high]; the message names file
            and line.
    """
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
