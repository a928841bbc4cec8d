"""The common interface of every task's examples: rows, `take`, `split`, `baseline`, and the file they came from."""

import abc
import dataclasses
import hashlib
import json
import numbers
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from kbert.checks import check_option
from kbert.errors import MissingPackage
from kbert.options import Natural
from kbert.tasks.stored_texts import StoredTexts
from kbert.tasks.table import place

if TYPE_CHECKING:
    import pandas as pd


class Examples(abc.ABC):
    """Labelled rows in memory, as `Task.read` returns and `kbert.finetune` takes them. The base of a frozen dataclass.

    A subclass is a dataclass with ``repr=False``, so that a notebook does not print every row. `row_fields` names its
    fields with one entry per row. `path` is the file that the rows came from (None: made in memory), and `lines` has
    the line at which each row begins. A loop gives each row as a dict. A slice, ``examples[:100]``, is examples again.

    Raises:
        IndexError: ``examples[n]`` of a row that does not exist.
        ValueError: `take` of no row, or of one that does not exist. `split` with a number that leaves one side empty.

    Example::

        train, dev = task.read("reviews.csv").split(0.1)
        len(dev), dev.columns["text"][0], dev.where(0)  # (500, "A charming journey.", "reviews.csv, line 17")
    """

    row_fields: ClassVar[tuple[str, ...]] = ()
    path: str | None = None
    lines: Sequence[int] = ()

    @property
    @abc.abstractmethod
    def columns(self) -> dict[str, Sequence]:
        """The strings, by the names of the pipeline's inputs."""

    @abc.abstractmethod
    def baseline(self) -> Any:
        """The constant answer that a model has to beat, in the form that `Task.baseline_scores` takes."""

    def __post_init__(self):
        sizes = {name: len(values) for name, values in self._row_values().items()}
        if len(set(sizes.values())) > 1 or not len(self):
            raise ValueError(
                f"{type(self).__name__}: expected as many of each, at least one row. Received: "
                + ", ".join(f"{size} {name}" for name, size in sizes.items())
            )

    def __len__(self):
        return len(getattr(self, self.row_fields[0]))

    def _row_values(self) -> dict[str, Sequence]:
        """The row fields that there are, by their names."""
        return {name: column for name in self.row_fields if (column := getattr(self, name)) is not None}

    def __repr__(self):
        return f"<{type(self).__name__}: {len(self):,} rows of {self.path or 'rows in memory'}>"

    def __getitem__(self, row):
        """A row as a dict, or the rows of a slice as examples."""
        if isinstance(row, slice):
            return self.take(range(len(self))[row])
        number = range(len(self))[row]  # raises IndexError
        return {name: values[number] for name, values in self._rows().items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        columns = self._rows()
        return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))

    def to_dataframe(self) -> "pd.DataFrame":
        """The rows as a pandas DataFrame, with labels as their names.

        Raises:
            ImportError: pandas is not installed.
        """
        try:
            import pandas as pd  # not above: kbert does not depend on it
        except ImportError as error:
            raise MissingPackage("to_dataframe needs pandas: pip install pandas", name="pandas") from error

        return pd.DataFrame(self._rows())

    def take(self, rows: ArrayLike) -> Self:
        """The examples of the given row numbers, in their order."""
        rows = np.asarray(rows, "int64")
        if not rows.size or rows.min() < 0 or rows.max() >= len(self):
            raise ValueError(f"Expected row numbers from 0 to {len(self) - 1}, at least one. Received: {rows.tolist()}")
        taken = {}
        for name, values in {**self._row_values(), "lines": self.lines}.items():
            if isinstance(values, StoredTexts):
                taken[name] = values.take(rows)
            elif len(values):
                taken[name] = values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows]
        return dataclasses.replace(self, **taken)

    def split(self, held_out: float | int, seed: int = 0, stratify: bool = False) -> tuple[Self, Self]:
        """Splits the examples at random into the others and the held-out ones, each in the order of the file.

        The draw depends only on the number of examples, `held_out` and `seed`. With one seed, a larger draw contains a
        smaller one.

        Args:
            held_out: a fraction (0.1) or a number (100). Tagged sentences are held out by whole documents, questions by
                contexts.
            seed: an integer from 0.
            stratify: whether the held-out examples have each label in its fraction of all examples, rounded. This needs
                texts with one label each. A larger draw then need not contain a smaller one.

        Raises:
            ValueError: a fraction or number that leaves one side empty, an invalid seed, or `stratify` without labels.
        """
        seed = check_option("split", "seed", seed, Natural)
        labels = self._strata() if check_option("split", "stratify", stratify, bool) else None
        if isinstance(held_out, bool) or not isinstance(held_out, numbers.Real):
            raise ValueError(f"split: `held_out` must be a fraction or a number. Received: {held_out!r}")
        groups = self._groups()
        fraction = not isinstance(held_out, numbers.Integral)
        count = max(1, round(held_out * len(groups))) if fraction else held_out
        if not 0 < count < len(groups) or held_out <= 0:
            what = f"a fraction of {held_out}, {count}," if fraction else f"{count}"
            raise ValueError(
                f"{self.path or type(self).__name__}: expected to hold out 1 to {len(groups) - 1} of {len(groups)} "
                f"{self._unit}. Received: {what}, which leaves one side empty"
            )
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(groups))
        if labels is not None:
            order = _stratified(order, labels, count)
        drawn, others = ([row for n in np.sort(part) for row in groups[n]] for part in (order[:count], order[count:]))
        return self.take(others), self.take(drawn)

    def where(self, row: int) -> str:
        """File and line of a row, as error messages name them. Without a file it is the row's number from 0."""
        if self.path is None or not len(self.lines):
            return f"{self.path or 'the examples'}, row {self.lines[row] if len(self.lines) else row}"
        return place(self.path, self.lines[row])

    def source(self, row: int) -> str:
        """Name of the file and line of a row, for tables of examples."""
        return os.path.basename(self.where(row))

    def fingerprint(self) -> str:
        """SHA-256 of the rows. It does not depend on the file that they came from."""
        digest = hashlib.sha256()
        for name in self.row_fields:
            values = getattr(self, name)
            if isinstance(values, np.ndarray):
                digest.update(str(values.dtype).encode() + values.tobytes())
            elif isinstance(values, StoredTexts):  # as of a list, a text at a time
                digest.update(b"[")
                for row, text in enumerate(values):
                    digest.update(b", " * (row > 0) + json.dumps(text).encode())
                digest.update(b"]")
            else:
                digest.update(json.dumps(values if values is None else list(values)).encode())
        return digest.hexdigest()

    def _rows(self) -> dict[str, list]:
        """The row fields by their names, as lists."""
        return {name: list(values) for name, values in self._row_values().items()}

    def _strata(self) -> np.ndarray:
        """The label of each row, for `split`."""
        raise ValueError(f"split: `stratify` is for texts with one label each. Received: {type(self).__name__}")

    _unit = "examples"

    def _groups(self):
        """The rows that are held out together."""
        return [(row,) for row in range(len(self))]


def _stratified(order, labels, count):
    """The row numbers with `count` first in which each label has its part: the largest remainders are rounded up."""
    sizes = np.bincount(labels)
    quotas = sizes * count // len(labels)
    remainders = sizes * count % len(labels)
    quotas[np.argsort(-remainders, kind="stable")[: count - quotas.sum()]] += 1
    rank = np.empty(len(order), "int64")  # of a row among those of its label
    for label in range(len(sizes)):
        rows = order[labels[order] == label]
        rank[rows] = np.arange(len(rows))
    is_drawn = rank < quotas[labels]
    return np.concatenate([order[is_drawn[order]], order[~is_drawn[order]]])
