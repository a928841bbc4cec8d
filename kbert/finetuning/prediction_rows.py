"""Files of inputs without labels, for predictions: tables, lines, the tasks' own formats."""

import collections
import dataclasses
import functools
import itertools
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kbert.aliases import PathLike
from kbert.checks import warn_of_empty_texts
from kbert.pipelines.pipeline import check_columns_taken
from kbert.pipelines.registry import task_class
from kbert.pipelines.text_columns import TextColumns, names_of
from kbert.tasks.table import (
    JSON_LINES,
    TABLES,
    check_characters,
    iterate_json_lines,
    iterate_lines,
    iterate_table,
    place,
    table_columns,
)

_LONGEST = 1 << 20  # characters of a cell: an input takes some 200 bytes of memory for each, in every row of a batch
NumberedRows = Iterator[tuple[str, dict[str, Any]]]  # where a row is, such as "a.csv, line 3"; the row: column → value


class Rows:
    """Rows of inputs, which may be more than fit into memory: every iteration reads them anew.

    All are read once at first, to check and count them. A cell that is too large is an error that names the row. Empty
    texts are counted in a warning.

    Args:
        read: function that returns an iterator of all rows.
        texts: the columns that make each of a row's texts.
    """

    def __init__(self, read: Callable[[], NumberedRows], texts: Sequence[tuple[str, ...]] = ()) -> None:
        self._read = read
        self._number = 0
        empty = collections.Counter()
        first = {}
        for where, row in read():
            self._number += 1
            for name, cell in row.items():
                _check_size(where, name, cell)
            for names in texts:
                if all(isinstance(row[name], str) and not row[name].strip() for name in names):
                    empty[names] += 1
                    first.setdefault(names, where)
        for names, count in empty.items():
            warn_of_empty_texts(", ".join(names), count, self._number, first[names])

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (row for _, row in self._read())

    def batches(self, start: int, size: int) -> Iterator[list[dict[str, Any]]]:
        """Lists of up to `size` rows from row `start` on."""
        rows = itertools.islice(self, start, None)
        while batch := list(itertools.islice(rows, size)):
            yield batch


def _check_size(where: str, name: str, cell) -> None:
    texts = cell if isinstance(cell, list | tuple) else [cell]
    size = sum(len(text) for text in texts if isinstance(text, str))
    if size > _LONGEST:
        raise ValueError(
            f"{where}: expected at most {_LONGEST:,} characters in {name!r}. Received: {size:,}. Divide the text, or "
            "leave the row out."
        )


def rows_to_answer(
    pipeline: Any,
    path: PathLike,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    keep: Sequence[str] = (),
    trained: Mapping[str, Any] | None = None,
    format: str | None = None,
) -> tuple[dict[str, TextColumns], Rows]:
    """The columns of each input of a pipeline, and the rows of a file, by the arguments of `predict_file`.

    A row has the texts under the names of their columns, then the kept columns.
    """
    path = pathlib.Path(path)
    task = task_class(pipeline.task)
    columns, trained = columns or {}, trained or {}
    if unknown := sorted(set(columns) - set(pipeline.input_names)):
        raise ValueError(
            f"Expected `columns` of the inputs {list(pipeline.input_names)}, which are those of a {pipeline.task} "
            f"model. Received: {unknown}"
        )
    has_formats = "format" in task.reading
    if format is not None and not has_formats:
        raise ValueError(f"`format` is not for the inputs of a {pipeline.task} model. Received: {format!r}")
    is_table = path.suffix.lower() in TABLES
    if keep and not is_table:
        raise ValueError(f"`keep` needs an input with columns. Received: {path}")
    present = table_columns(path) if is_table else []
    inputs = _input_columns(pipeline, columns, trained, present)
    if has_formats and format is None and not columns:
        format = trained.get("format")
    read = task.read_columns(path, {name: each.names for name, each in inputs.items()}, format)
    names = [name for each in inputs.values() for name in each.names]
    if read is not None:
        inputs = {name: each if len(each.names) == 1 else TextColumns((name,)) for name, each in inputs.items()}
        if others := [name for name in keep if name not in read]:
            kept = [row for _, row in table_rows(path, (), others)]
            read |= {name: [row[name] for row in kept] for name in others}
        rows = functools.partial(_column_rows, path, read)
    elif is_table:
        _check_present(pipeline, path, inputs, present)
        rows = functools.partial(table_rows, path, names, [name for name in keep if name not in names])
    elif pathlib.Path(path.stem).suffix.lower() in TABLES:
        raise ValueError(f"{path}: expected a table as it is, not compressed. Unpack it.")
    else:
        rows = functools.partial(_line_rows, path, names)
    rows = Rows(rows, [each.names for each in inputs.values()])
    if not columns:
        others = set(present).difference(keep, *(each.names for each in inputs.values()))
        otherwise = f"Name the columns to read (--{pipeline.input_names[0]}; in Python `columns`)"
        check_columns_taken(str(path), pipeline.task, others, pipeline.input_names, otherwise)
    if not len(rows):
        raise ValueError(f"{path} contains no text")
    return inputs, rows


def _input_columns(pipeline, columns: Mapping, trained: Mapping, present: Sequence[str]) -> dict[str, TextColumns]:
    """The columns of each input: those that are named, those of the training if the file has them, or the input's."""
    known = getattr(pipeline, "trained_columns", {}) | TextColumns.from_fields(trained, pipeline.input_names)
    inputs = {}
    for name in pipeline.input_names:
        own = known.get(name, TextColumns((name,)))
        if name in columns:
            own = dataclasses.replace(own, names=names_of(columns[name]))
        elif not set(own.names) <= set(present):
            own = TextColumns((name,))
        inputs[name] = own
    return inputs


def _check_present(pipeline, path: pathlib.Path, inputs: Mapping[str, TextColumns], present: Sequence[str]) -> None:
    if missing := [name for name, each in inputs.items() if not set(each.names) <= set(present)]:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in missing)
        absent = [column for name in missing for column in inputs[name].names if column not in present]
        wanted = [column for each in inputs.values() for column in each.names]
        raise ValueError(
            f"{path}: expected the columns {wanted}, for the inputs {list(inputs)} of a {pipeline.task} model. "
            f"Received: {present}; missing: {absent}. {flags} (in Python `columns`) can name others"
        )


def _column_rows(path: pathlib.Path, columns: Mapping[str, Sequence[Any]]) -> NumberedRows:
    for number, row in enumerate(zip(*columns.values(), strict=True), start=1):
        yield f"{path}, row {number}", dict(zip(columns, row, strict=True))


def table_rows(path: pathlib.Path, columns: Sequence[str], keep: Sequence[str]) -> NumberedRows:
    """The rows of a table; values of the columns to keep stay as they are in JSON lines."""
    if not keep or path.suffix.lower() not in JSON_LINES:
        for number, row in iterate_table(path, [*columns, *keep]):
            yield place(path, number), row
        return
    for (_, row), (number, entry) in zip(iterate_table(path, columns), iterate_json_lines(path), strict=True):
        if missing := [name for name in keep if name not in entry]:
            raise ValueError(f"{path}, line {number}: expected the keys {list(keep)}. Missing: {missing}")
        kept = {name: entry[name] for name in keep}
        check_characters(json.dumps(kept, ensure_ascii=False), f"{path}, line {number}")
        yield f"{path}, line {number}", row | kept


def _line_rows(path: pathlib.Path, names: Sequence[str]) -> NumberedRows:
    """A row for each line, as `iterate_lines` reads them: a text, or several separated by tabs."""
    for number, line in enumerate(iterate_lines(path), start=1):
        cells = line.split("\t") if len(names) > 1 else [line]
        if len(cells) != len(names):
            raise ValueError(
                f"{path}, line {number}: expected {len(names)} texts separated by tabs. Received: {len(cells)}"
            )
        yield f"{path}, line {number}", dict(zip(names, cells, strict=True))
