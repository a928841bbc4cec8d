"""Files of inputs without labels, for predictions: tables, lines, the tasks' own formats; and the lines of answers."""

import abc
import csv
import inspect
import io
import itertools
import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kbert.checks import check_bool, check_path, check_positive
from kbert.pipelines.registry import task_class
from kbert.tasks.table import JSON_LINES, TABLES, iterate_json_lines, iterate_table, table_columns
from kbert.tasks.text_files import iterate_lines

_LONGEST = 1 << 20  # characters of a cell: an input takes some 200 bytes of memory for each, in every row of a batch


class Rows(abc.ABC):
    """Rows of inputs, which may be more than fit into memory: every iteration begins anew."""

    @abc.abstractmethod
    def __len__(self):
        """How many rows there are."""

    @abc.abstractmethod
    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yields the rows, column → value."""

    def batches(self, start: int, size: int) -> Iterator[list[dict[str, Any]]]:
        """Lists of up to `size` rows from row `start` on."""
        rows = itertools.islice(self, start, None)
        while some := list(itertools.islice(rows, size)):
            yield some


def _checked(row, where, number):
    for name, cell in row.items():
        size = sum(map(len, cell)) if isinstance(cell, list | tuple) else len(cell) if isinstance(cell, str) else 0
        if size > _LONGEST:
            raise ValueError(
                f"{where} {number}: expected at most {_LONGEST:,} characters in {name!r}. Received: {size:,}. Divide "
                "the text, or leave the row out."
            )
    return row


class ColumnRows(Rows):
    """Rows of columns in memory.

    Raises:
        ValueError: a cell that is too large; the message names the file and the row, from 1.
    """

    def __init__(self, path, columns: Mapping[str, Sequence[Any]]):
        self.columns = dict(columns)
        for number, row in enumerate(self, start=1):
            _checked(row, f"{path}, row", number)

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __iter__(self):
        for row in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, row, strict=True))


class TableRows(Rows):
    """Rows of a CSV, TSV or JSON-lines file, which is read once to check and count them, and then again.

    Args:
        keep: of the columns to copy, whose values in JSON lines stay as they are.

    Raises:
        ValueError: as `kbert.tasks.table.read_table`; a JSON object without one of the columns to keep; a cell that is
            too large; the message names the line and the column.
    """

    def __init__(self, path, columns: Sequence[str], keep: Sequence[str]):
        self.path = pathlib.Path(path)
        self.columns = tuple(columns)
        self.keep = tuple(keep)
        self._number = sum(1 for _ in self)

    def __len__(self):
        return self._number

    def __iter__(self):
        where = f"{self.path}, line"
        if not self.keep or self.path.suffix.lower() not in JSON_LINES:
            for number, row in iterate_table(self.path, [*self.columns, *self.keep]):
                yield _checked(row, where, number)
            return
        objects = iterate_json_lines(self.path, as_written=False)
        for (_, row), (number, entry) in zip(iterate_table(self.path, self.columns), objects, strict=True):
            if missing := [name for name in self.keep if name not in entry]:
                raise ValueError(f"{self.path}, line {number}: expected the keys {list(self.keep)}. Missing: {missing}")
            yield _checked(row, where, number) | {name: entry[name] for name in self.keep}


class LineRows(Rows):
    """A row for each line of a file: a text, or two separated by a tab. The file is not kept in memory.

    Raises:
        ValueError: other texts than these; what `iterate_lines` refuses; a line that does not have exactly one tab, for
            two texts; one that is too large; the message names the line.
    """

    def __init__(self, path, names: Sequence[str]):
        self.path = pathlib.Path(path)
        self.names = tuple(names)
        if len(self.names) > 2:
            raise ValueError(f"{path}: expected a table, or a file that the task reads, with {list(names)}")
        self._number = sum(1 for _ in self)

    def __len__(self):
        return self._number

    def __iter__(self):
        for number, line in enumerate(iterate_lines(self.path), start=1):
            texts = line.split("\t") if len(self.names) == 2 else [line]
            if len(texts) != len(self.names):
                raise ValueError(
                    f"{self.path}, line {number}: expected two texts with a tab between them. Received: {len(texts)}"
                )
            yield _checked(dict(zip(self.names, texts, strict=True)), f"{self.path}, line", number)


def read_rows(pipeline, path, columns: Mapping[str, str], keep: Sequence[str] = (), **reading):
    """The rows of a file of inputs.

    Args:
        pipeline: `kbert.Pipeline` or `kbert.serving.ExportedPipeline`.
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
    path = check_path(path, "read_rows: `path`")
    is_table = path.suffix.lower() in TABLES
    if keep and not is_table:
        raise ValueError(f"Expected a table, as columns are to be kept. Received: {path}")
    read_columns = task_class(pipeline.task).read_columns
    if other := sorted(set(reading) - set(inspect.signature(read_columns).parameters)):
        raise ValueError(f"Expected no {other} for the inputs of a {pipeline.task} model. Received: {reading}")
    read = read_columns(path, columns, **reading)
    names = list(columns.values() if read is None else read)
    keep = [name for name in keep if name not in names]
    if read is None:
        if is_table:
            _check_inputs(pipeline, path, columns)
        elif pathlib.Path(path.stem).suffix.lower() in TABLES:
            raise ValueError(f"{path}: expected a table as it is, not compressed. Unpack it.")
        return TableRows(path, names, keep) if is_table else LineRows(path, names)
    if keep:
        rows = list(TableRows(path, (), keep))
        read |= {name: [row[name] for row in rows] for name in keep}
    return ColumnRows(path, read)


def _check_inputs(pipeline, path, columns):
    there = table_columns(path)
    if missing := [name for name, column in columns.items() if column not in there]:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in missing)
        raise ValueError(
            f"{path}: expected the columns {list(columns.values())}, for the inputs {list(columns)} of a "
            f"{pipeline.task} model. Received: {there}; missing: {[columns[name] for name in missing]}. "
            f"{flags} (in Python `columns`) can name others"
        )


def rows_to_answer(pipeline, path, columns, keep, trained=None, **reading):
    """The column of each input of a pipeline, and the result of `read_rows`.

    Args:
        columns: input → column; None: all by default.
        trained: options of the task object that the model was trained with: the columns by default, if a table has
            them (otherwise the default is the input's own name), and the format unless columns or a format are given.

    Raises:
        ValueError: as `read_rows`; columns for inputs that the pipeline does not have, no rows.
    """
    if unknown := sorted(set(columns or {}) - set(pipeline.input_names)):
        raise ValueError(
            f"Expected `columns` of the inputs {list(pipeline.input_names)}, which are those of a {pipeline.task} "
            f"model. Received: {unknown}"
        )
    defaults = dict(trained or {})
    there = table_columns(path) if defaults and pathlib.Path(path).suffix.lower() in TABLES else []
    arguments = inspect.signature(task_class(pipeline.task).read_columns).parameters
    if "format" in defaults and "format" in arguments and not columns and not reading:
        reading["format"] = defaults["format"]
    choices = defaults.pop("choices", ())
    if choices and set(choices) <= set(there) and "choice_columns" in arguments:
        reading.setdefault("choice_columns", choices)
    found = {name: column for name, column in defaults.items() if column in there}
    columns = {name: (columns or {}).get(name, found.get(name, name)) for name in pipeline.input_names}
    rows = read_rows(pipeline, path, columns, keep, **reading)
    if not len(rows):
        raise ValueError(f"{path} holds no text")
    return columns, rows


FORMATS = (".jsonl", ".csv")


def check_output(pipeline, output, overwrite: bool) -> None:
    """Checks that answers can be written to a file; call it before long work.

    Raises:
        ValueError: a name that ends otherwise; a table for answers that fit none.
        FileExistsError: the file exists, and may not be replaced.
        IsADirectoryError: it is a directory.
    """
    check_bool(overwrite, "`overwrite`")
    if output.suffix.lower() not in FORMATS:
        raise ValueError(f"Expected an output whose name ends in .jsonl or .csv. Received: {output}")
    if output.suffix.lower() == ".csv" and not pipeline.answers.fits_table:
        raise ValueError(
            f"The answers {sorted(pipeline.output)} of a {pipeline.task} model fit no table; "
            "give --output a name in .jsonl"
        )
    if output.is_dir():
        raise IsADirectoryError(f"Expected a file for the answers. Received: {output}, which is a directory")
    if output.exists() and not overwrite:
        raise FileExistsError(f"{output} exists; --overwrite replaces it")


def rows_at_once(pipeline, batch_size: int) -> int:
    """The rows of a batch: `batch_size`, of an export at most what it answers at once."""
    (batch_size,) = check_positive("predict_file", batch_size=batch_size).values()
    return min(batch_size, getattr(pipeline, "max_rows", batch_size))


def answered_rows(
    pipeline, rows: Sequence[dict[str, Any]], columns: Mapping[str, str], batch_size: int
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(row, answer) of each row of a batch. Batches are always full, so that the model is traced only once.

    Args:
        pipeline: `kbert.Pipeline` or `kbert.serving.ExportedPipeline`.
        rows: at most `batch_size`.
        columns: input of the pipeline → column of the rows.
        batch_size: rows per forward pass; fewer are filled up with empty ones.

    Raises:
        ValueError: a column has the name of an answer.
    """
    batch = {name: [row[column] for row in rows] for name, column in columns.items()}
    for values in batch.values():
        values.extend([_emptied(values[-1])] * (batch_size - len(rows)))
    answers = pipeline.predict_on_batch(batch)
    for row, result in zip(rows, pipeline.answers.to_dicts(answers), strict=False):
        if clash := set(row) & set(result):
            raise ValueError(f"columns of the input have the names of answers: {sorted(clash)}; rename them")
        yield row, result


def _emptied(value):
    """An input of the same kind without text: "" for a text, a list of them for choices."""
    return [""] * len(value) if isinstance(value, list | tuple) else ""


def answer_lines(rows: Iterable[tuple], answers, suffix: str, header: bool) -> bytes:
    """The lines of answered rows, .jsonl or .csv by `suffix`; `header`: whether a table begins here."""
    if suffix.lower() == ".jsonl":
        return "".join(json.dumps(row | result, ensure_ascii=False) + "\n" for row, result in rows).encode()
    file = io.StringIO(newline="")
    writer = None
    for row, result in rows:
        cells = row | answers.table_row(result)
        if writer is None:
            writer = csv.DictWriter(file, cells)
            if header:
                writer.writeheader()
        writer.writerow(cells)
    return file.getvalue().encode()
