"""Files of inputs without labels, for predictions: tables, lines, the tasks' own formats."""

import collections
import dataclasses
import inspect
import itertools
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kbert.aliases import PathLike
from kbert.checks import check_path, warn_of_empty_texts
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

ColumnNames = Mapping[str, str | Sequence[str]]  # input of a pipeline → column of a file, or columns that are joined
_LONGEST = 1 << 20  # characters of a cell: an input takes some 200 bytes of memory for each, in every row of a batch


class Rows:
    """Rows of inputs, which may be more than fit into memory: every iteration reads them anew.

    All are read once at first, to check and count them. A cell that is too large is an error that names the row. Empty
    texts are counted in a warning. `texts` has the columns that make each of a row's texts.
    """

    def __init__(
        self, read: Callable[[], Iterator[tuple[str, dict[str, Any]]]], texts: Sequence[tuple[str, ...]] = ()
    ) -> None:
        self._read = read  # yields (where a row stands, the row: column → value)
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
        for _, row in self._read():
            yield row

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


def column_rows(path: PathLike, columns: Mapping[str, Sequence[Any]], texts: Sequence[tuple[str, ...]]) -> Rows:
    """Rows of columns in memory."""

    def read():
        for number, row in enumerate(zip(*columns.values(), strict=True), start=1):
            yield f"{path}, row {number}", dict(zip(columns, row, strict=True))

    return Rows(read, texts)


def table_rows(
    path: PathLike, columns: Sequence[str], keep: Sequence[str], texts: Sequence[tuple[str, ...]] = ()
) -> Rows:
    """Rows of a table; values of the columns to keep stay as they are in JSON lines."""
    path = pathlib.Path(path)

    def read():
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

    return Rows(read, texts)


def line_rows(path: PathLike, names: Sequence[str], texts: Sequence[tuple[str, ...]]) -> Rows:
    """A row for each line of a file, as `iterate_lines` reads them: a text, or two separated by a tab."""
    if len(names) > 2:
        raise ValueError(f"{path}: expected a table, or a file that the task reads, with {list(names)}")

    def read():
        for number, line in enumerate(iterate_lines(path), start=1):
            cells = line.split("\t") if len(names) == 2 else [line]
            if len(cells) != len(names):
                raise ValueError(
                    f"{path}, line {number}: expected two texts with a tab between them. Received: {len(cells)}"
                )
            yield f"{path}, line {number}", dict(zip(names, cells, strict=True))

    return Rows(read, texts)


def read_rows(pipeline: Any, path: PathLike, columns: ColumnNames, keep: Sequence[str] = (), **reading) -> Rows:
    """The rows of a file of inputs.

    Args:
        pipeline: `kbert.Pipeline` or `kbert.serving.ExportedPipeline`.
        path: .csv, .tsv, .jsonl, .parquet, .arrow or .feather, read by columns; the formats of the pipeline's task
            (questions: SQuAD's .json); any other file is read line by line.
        columns: input of the pipeline → column of the file, or a list of columns that are joined to one text.
        keep: columns to copy to the predictions.
        **reading: arguments of the task's reader: for multiple choice ``format`` and ``choice_columns``.

    Returns:
        `Rows`; a row has the texts under the names of their columns, then the kept columns.

    Raises:
        ValueError: missing columns, or columns to keep from a file without columns.
    """
    path = check_path(path, "read_rows: `path`")
    is_table = path.suffix.lower() in TABLES
    if keep and not is_table:
        raise ValueError(f"Expected a table, as columns are to be kept. Received: {path}")
    read_columns = task_class(pipeline.task).read_columns
    if other := sorted(set(reading) - set(inspect.signature(read_columns).parameters)):
        raise ValueError(f"Expected no {other} for the inputs of a {pipeline.task} model. Received: {reading}")
    texts = [names_of(each) for each in columns.values()]
    read = read_columns(path, {name: names[0] for name, names in zip(columns, texts, strict=True)}, **reading)
    names = [*itertools.chain(*texts)] if read is None else list(read)
    keep = [name for name in keep if name not in names]
    if read is None:
        if is_table:
            _check_inputs(pipeline, path, columns)
        elif pathlib.Path(path.stem).suffix.lower() in TABLES:
            raise ValueError(f"{path}: expected a table as it is, not compressed. Unpack it.")
        return table_rows(path, names, keep, texts) if is_table else line_rows(path, names, texts)
    if keep:
        rows = list(table_rows(path, (), keep))
        read |= {name: [row[name] for row in rows] for name in keep}
    return column_rows(path, read, [(names[0],) for names in texts])


def _check_inputs(pipeline, path: pathlib.Path, columns: ColumnNames) -> None:
    present = table_columns(path)
    wanted = {name: names_of(each) for name, each in columns.items()}
    if missing := [name for name, each in wanted.items() if not set(each) <= set(present)]:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in missing)
        absent = [column for name in missing for column in wanted[name] if column not in present]
        raise ValueError(
            f"{path}: expected the columns {[*itertools.chain(*wanted.values())]}, for the inputs {list(columns)} of a "
            f"{pipeline.task} model. Received: {present}; missing: {absent}. "
            f"{flags} (in Python `columns`) can name others"
        )


def rows_to_answer(
    pipeline: Any,
    path: PathLike,
    columns: ColumnNames | None,
    keep: Sequence[str],
    trained: Mapping | None = None,
    **reading,
) -> tuple[dict[str, TextColumns], Rows]:
    """The columns of each input of a pipeline, and the result of `read_rows`."""
    if unknown := sorted(set(columns or {}) - set(pipeline.input_names)):
        raise ValueError(
            f"Expected `columns` of the inputs {list(pipeline.input_names)}, which are those of a {pipeline.task} "
            f"model. Received: {unknown}"
        )
    defaults = dict(trained or {})
    names = table_columns(path) if pathlib.Path(path).suffix.lower() in TABLES else []
    arguments = inspect.signature(task_class(pipeline.task).read_columns).parameters
    if "format" in defaults and "format" in arguments and not columns and not reading:
        reading["format"] = defaults["format"]
    choices = defaults.pop("choices", ())
    if choices and set(choices) <= set(names) and "choice_columns" in arguments:
        reading.setdefault("choice_columns", choices)
    known = getattr(pipeline, "trained_columns", {}) | TextColumns.from_fields(defaults, pipeline.input_names)
    inputs = {}
    for name in pipeline.input_names:
        own = known.get(name, TextColumns((name,)))
        if name in (columns or {}):
            own = dataclasses.replace(own, names=names_of(columns[name]))
        elif not set(own.names) <= set(names):
            own = TextColumns((name,))
        inputs[name] = own
    rows = read_rows(pipeline, path, {name: each.names for name, each in inputs.items()}, keep, **reading)
    if not columns:
        others = set(names).difference(keep, *(each.names for each in inputs.values()))
        otherwise = f"Name the columns to read (--{pipeline.input_names[0]}; in Python `columns`)"
        check_columns_taken(str(path), pipeline.task, others, pipeline.input_names, otherwise)
    if not len(rows):
        raise ValueError(f"{path} holds no text")
    return inputs, rows
