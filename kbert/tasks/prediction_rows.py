"""Files of inputs without labels, read for predictions: tables, lines, and the tasks' own formats."""

import inspect
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kbert.pipelines.registry import task_pipeline
from kbert.tasks.table import iterate_json_lines, iterate_table, read_json_lines, read_table

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")


class ColumnRows:
    """Rows of columns in memory.

    Args:
        columns: name → list of n values.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]):
        self.columns = dict(columns)

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def batches(self, start: int, size: int) -> Iterator[list[dict[str, Any]]]:
        """Lists of up to `size` rows from row `start` on."""
        for first in range(start, len(self), size):
            some = [column[first : first + size] for column in self.columns.values()]
            yield [dict(zip(self.columns, row, strict=True)) for row in zip(*some, strict=True)]


class TableRows:
    """Rows of a CSV, TSV or JSON-lines file, which is read once to check and count them, and then again.

    Args:
        path: the file.
        columns: names of the columns of text.
        keep: of the columns to copy, whose values in JSON lines stay as they are.

    Raises:
        ValueError: as `kbert.tasks.table.read_table`; a JSON object without one of the columns to keep.
    """

    def __init__(self, path, columns: Sequence[str], keep: Sequence[str]):
        self.path, self.columns, self.keep = pathlib.Path(path), tuple(columns), tuple(keep)
        self._number = sum(1 for _ in self._rows())

    def __len__(self):
        return self._number

    def batches(self, start: int, size: int) -> Iterator[list[dict[str, Any]]]:
        """Lists of up to `size` rows from row `start` on."""
        rows = itertools.islice(self._rows(), start, None)
        while some := list(itertools.islice(rows, size)):
            yield some

    def _rows(self):
        if not self.keep or self.path.suffix.lower() not in (".jsonl", ".ndjson"):
            for _, row in iterate_table(self.path, [*self.columns, *self.keep]):
                yield row
            return
        objects = iterate_json_lines(self.path, as_written=False)
        for (_, row), (number, entry) in zip(iterate_table(self.path, self.columns), objects, strict=True):
            yield {**row, **_kept_values(self.path, number, entry, self.keep)}


class LineRows:
    """A row for each line of a file: a text, or two separated by a tab. The file is not kept in memory.

    Bytes that are not UTF-8 become U+FFFD.

    Args:
        path: the file.
        names: of the texts of a line, one or two.
    """

    def __init__(self, path, names: Sequence[str]):
        self.path, self.names = pathlib.Path(path), tuple(names)
        if len(self.names) > 2:
            raise ValueError(f"{path}: expected a table, or a file that the task reads, with {list(names)}")
        with open(path, "rb") as file:
            self._number, last = 0, b"\n"
            while block := file.read(2**20):
                self._number, last = self._number + block.count(b"\n"), block[-1:]
        self._number += last != b"\n"

    def __len__(self):
        return self._number

    def batches(self, start: int, size: int) -> Iterator[list[dict[str, str]]]:
        """Lists of up to `size` rows from row `start` on.

        Raises:
            ValueError: a line that does not have exactly one tab, for two texts; the message names the line.
        """
        some = []
        with open(self.path, encoding="utf-8-sig", errors="replace", newline="\n") as file:
            for number, line in enumerate(file):
                if number < start:
                    continue
                some.append(self._row(number, line.removesuffix("\n").removesuffix("\r")))
                if len(some) == size:
                    yield some
                    some = []
        if some:
            yield some

    def _row(self, number, line):
        texts = line.split("\t") if len(self.names) == 2 else [line]
        if len(texts) != len(self.names):
            raise ValueError(
                f"{self.path}, line {number + 1}: expected two texts with a tab between them. Received: {len(texts)}"
            )
        return dict(zip(self.names, texts, strict=True))


def read_rows(pipeline, path, columns: Mapping[str, str], keep: Sequence[str] = (), **reading):
    """The rows of a file of inputs.

    Args:
        pipeline: `kbert.Pipeline` or `kbert.serving.exported_pipeline.ExportedPipeline`.
        path: .csv, .tsv or .jsonl, read by columns; the formats of the pipeline's task (questions: SQuAD's .json); any
            other file is read line by line.
        columns: input of the pipeline → column of the file.
        keep: columns to copy to the predictions.
        **reading: arguments of the task's reader: for multiple choice ``format`` and ``choice_columns``.

    Returns:
        `ColumnRows`, `TableRows` or `LineRows`; a row has the texts under the names of their columns, then the kept
        columns.

    Raises:
        ValueError: missing columns, or columns to keep from a file without columns.
    """
    path = pathlib.Path(path)
    is_table = path.suffix.lower() in TABLES
    if keep and not is_table:
        raise ValueError(f"Expected a table, as columns are to be kept. Received: {path}")
    read_columns = task_pipeline(pipeline.task).read_columns
    if other := sorted(set(reading) - set(inspect.signature(read_columns).parameters)):
        raise ValueError(f"Expected no {other} for the inputs of a {pipeline.task} model. Received: {reading}")
    read = read_columns(path, columns, **reading)
    if read is None and not is_table:
        return LineRows(path, list(columns.values()))
    if read is None:
        names = list(columns.values())
        return TableRows(path, names, [name for name in keep if name not in names])
    return ColumnRows({**read, **_kept(path, [name for name in keep if name not in read])})


def rows_to_answer(pipeline, path, columns, keep, **reading):
    """The column of each input of a pipeline, by default of its name, and `read_rows`; ValueError if there are none."""
    columns = {name: (columns or {}).get(name, name) for name in pipeline.input_names}
    rows = read_rows(pipeline, path, columns, keep, **reading)
    if not len(rows):
        raise ValueError(f"{path} holds no text")
    return columns, rows


def _kept(path, keep):
    """The columns to keep; those of JSON lines have their values as they are."""
    if not keep:
        return {}
    if path.suffix.lower() not in (".jsonl", ".ndjson"):
        table = read_table(path, list(keep))
        return {name: table[name] for name in keep}
    kept = {name: [] for name in keep}
    for number, entry in read_json_lines(path, as_written=False):
        for name, value in _kept_values(path, number, entry, keep).items():
            kept[name].append(value)
    return kept


def _kept_values(path, number, entry, keep):
    if missing := [name for name in keep if name not in entry]:
        raise ValueError(f"{path}, line {number}: expected the keys {list(keep)}. Missing: {missing}")
    return {name: entry[name] for name in keep}
