"""Columns of text that do not fit into memory: a temporary file, read where it is asked for.

Shapes: n texts.
"""

import array
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

import numpy as np
from numpy.typing import ArrayLike

_MOST_IN_MEMORY = 1 << 26  # characters of a column; more of them go to a file
_AT_ONCE = 256  # texts that are read for a loop


class StoredTexts(Sequence):
    """Texts in a temporary file, of which only the places (8 bytes a text) are in memory.

    Any text is read at any time, so an epoch has the order that it would have with all texts in memory, and a run
    resumes exactly. The file is removed with the last object that uses it.
    """

    def __init__(self, file: BinaryIO, ends: np.ndarray, rows: np.ndarray | None = None) -> None:
        self._file = file  # the texts one after the other in UTF-8
        self._ends = ends  # int64 [n], the byte at which each text ends
        self._rows = rows  # int64, the numbers of the texts that this object has; None: all of them

    def __len__(self):
        return len(self._ends if self._rows is None else self._rows)

    def __getitem__(self, row):
        if isinstance(row, slice):
            return self.take(np.arange(len(self))[row])
        return self.read([range(len(self))[row]])[0].decode()  # range raises IndexError

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _AT_ONCE):
            yield from (text.decode() for text in self.read(range(start, min(start + _AT_ONCE, len(self)))))

    def __array__(self, dtype=None, copy=None):
        return np.array(self.read(range(len(self))), object)

    def take(self, rows: ArrayLike) -> "StoredTexts":
        """The texts of the given numbers, in their order, in the same file."""
        rows = np.asarray(rows, "int64")
        return StoredTexts(self._file, self._ends, rows if self._rows is None else self._rows[rows])

    def read(self, rows: ArrayLike) -> list[bytes]:
        """The texts of the given numbers, in UTF-8."""
        numbers = np.asarray(rows, "int64") if self._rows is None else self._rows[np.asarray(rows, "int64")]
        starts = np.where(numbers > 0, self._ends[numbers - 1], 0)
        places = zip(starts.tolist(), self._ends[numbers].tolist(), strict=True)
        # One system call each: threads of tf.data share the file without moving a common position.
        return [os.pread(self._file.fileno(), end - start, start) for start, end in places]


def store_columns(rows: Iterable[Sequence], count: int) -> list[Sequence]:
    """Rows of `count` values as columns: lists, or `StoredTexts` for columns with more than 64 million characters."""
    columns = [_Column() for _ in range(count)]
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    return [column.finish() for column in columns]


class _Column:
    """Values that come one after the other, kept in a list until the texts among them are too long."""

    def __init__(self):
        self.texts = []
        self.size = 0
        self.file = None
        self.ends = array.array("q")

    def append(self, value):
        self.texts.append(value)
        self.size += len(value) if isinstance(value, str) else 0
        if self.size > _MOST_IN_MEMORY:
            self.flush()

    def flush(self):
        """Moves what is in memory to the file."""
        if self.file is None:
            self.file = tempfile.TemporaryFile(prefix="kbert-")
        for text in self.texts:
            self.file.write(content := text.encode())
            self.ends.append((self.ends[-1] if self.ends else 0) + len(content))
        self.texts = []
        self.size = 0

    def finish(self):
        if self.file is None:
            return self.texts
        self.flush()
        self.file.flush()
        return StoredTexts(self.file, np.frombuffer(self.ends, "int64"))
