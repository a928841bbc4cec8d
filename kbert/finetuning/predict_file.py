"""Writes a pipeline's answers to every row of a file; a killed run resumes."""

import contextlib
import csv
import dataclasses
import io
import json
import logging
import os
import pathlib
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbert.aliases import PathLike
from kbert.checks import check_bool, check_path, check_positive
from kbert.files import atomic_file, check_file, explain_full_disk, sha256
from kbert.finetuning.prediction_rows import ColumnNames, rows_to_answer
from kbert.locks import locked_output, unlock_directory
from kbert.pipelines.text_columns import TextColumns
from kbert.training.callbacks import PredictionProgress
from kbert.training.run_directory import open_run

if TYPE_CHECKING:
    from kbert.answers.answers import Answers

_LOGGER = logging.getLogger("kbert")
_FORMATS = (".jsonl", ".csv")
_SECONDS = 20.0  # of answers in a part: what a killed run loses


def predict_file(
    pipeline: Any,
    source: PathLike,
    output: PathLike,
    *,
    columns: ColumnNames | None = None,
    trained: Mapping | None = None,
    keep: Sequence[str] = (),
    batch_size: int = 32,
    overwrite: bool = False,
    **reading,
) -> int:
    """Writes the answers to all rows of a file, in their order; logs how many are done.

    The output file appears when all rows are done. Until then the answers are parts in the directory
    ``<output>.partial``. After a kill, the same call resumes from there with the same result as an uninterrupted one.
    One process at a time writes to an output. Of a symbolic link, the file that it points to is written.

    Args:
        pipeline: `kbert.Pipeline` or `kbert.serving.ExportedPipeline`.
        source: file of inputs: see `kbert.finetuning.read_rows`.
        output: .jsonl, or .csv if an answer is a row of a table.
        columns: input of the pipeline → column of the file, or a list of columns that are joined to one text.
        trained: `kbert.serving.trained_options` of the model: its columns and format, unless others are
            given. Where a table has no such columns, and by default, they have the names of the inputs.
        keep: columns of the input to copy to the output, in addition to the texts.
        overwrite: replace an existing `output`, or the unfinished one of another run.
        batch_size: rows per forward pass, of an export at most what it answers at once.
        **reading: how the task's reader reads `source`.

    Returns:
        The number of rows.

    Raises:
        FileNotFoundError: there is no such source.
        FileExistsError: `output` exists, or is being written from other inputs, another model or other options.
        ValueError: no rows; a source that is the output, or changes while it is read; columns that are missing or have
            the names of answers; answers that do not fit a table; a cell that is too large.
        BlockingIOError: another process writes to `output`.
        FullDisk: the disk is full; the same call resumes.
    """
    source, output = _check_paths(source, output)
    with explain_full_disk(output), locked_output(output) as place:
        check_output(pipeline, output, overwrite)
        columns, rows = rows_to_answer(pipeline, source, columns, keep, trained, **reading)
        batch_size = rows_at_once(pipeline, batch_size)
        settings = {
            "source": sha256(source),
            "columns": {name: dataclasses.asdict(each) for name, each in columns.items()},
            "keep": list(keep),
            "batch_size": batch_size,
            "reading": reading,
            "pipeline": pipeline.fingerprint(),
        }
        with _unfinished(place, settings, overwrite) as answers:
            progress = PredictionProgress(len(rows), batch_size, before=answers.rows)
            if answers.rows:
                _LOGGER.info("%s: %s of %s rows are done; resuming.", output, f"{answers.rows:,}", f"{len(rows):,}")
            for batch in rows.batches(answers.rows, batch_size):
                answered = answered_rows(pipeline, batch, columns, batch_size)
                lines = answer_lines(answered, pipeline.answers, output.suffix, header=not answers.rows)
                answers.add(lines, len(batch))
                progress.done(answers.rows)
            if answers.rows != len(rows) or not source.is_file() or sha256(source) != settings["source"]:
                raise ValueError(f"{source} changed while it was read: give the same command again")
            check_output(pipeline, output, overwrite)  # another program may have written it
            answers.join(place)
    return answers.rows


def _check_paths(source: PathLike, output: PathLike) -> tuple[pathlib.Path, pathlib.Path]:
    source = check_path(source, "predict_file: `source`")
    output = check_path(output, "predict_file: `output`")
    check_file(source, "a file of inputs")
    if os.path.realpath(source) == os.path.realpath(output):
        raise ValueError(f"Expected another file for the answers than that of the inputs. Received: {output}")
    return source, output


class _Answers:
    """The answers so far: files of those of about `_SECONDS` each, named by the numbers of their rows, FIRST-END."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.parts = []
        self.rows = 0  # that are answered
        for path in sorted(directory.glob("[0-9]*-*[0-9]")):
            first, end = map(int, path.name.split("-"))
            if first == self.rows:
                self.parts.append(path)
                self.rows = end
        self._begin()

    def _begin(self) -> None:
        self._lines: list[bytes] = []
        self._first = self.rows
        self._began = time.monotonic()

    def add(self, lines: bytes, rows: int) -> None:
        """Takes the answers to the next rows."""
        self._lines.append(lines)
        self.rows += rows
        if time.monotonic() - self._began > _SECONDS:
            path = self.directory / f"{self._first:012d}-{self.rows:012d}"
            with atomic_file(path, "wb") as file:
                file.writelines(self._lines)
            self.parts.append(path)
            self._begin()

    def join(self, output: pathlib.Path) -> None:
        """Writes all answers to the output."""
        with atomic_file(output, "wb") as file:
            for path in self.parts:
                with open(path, "rb") as part:
                    shutil.copyfileobj(part, file)
            file.writelines(self._lines)


@contextlib.contextmanager
def _unfinished(output: pathlib.Path, settings: dict, overwrite: bool) -> Iterator[_Answers]:
    """The answers of an earlier start of this run, if there was one; they are kept if this one is killed, too."""
    directory = output.with_name(output.name + ".partial")
    if directory.is_symlink():
        raise FileExistsError(f"Expected a directory, or none. Received: {directory}, a link; delete it")
    try:
        open_run(directory, settings, recipe="kbert.predict_file")
    except (FileExistsError, ValueError):
        if not overwrite:
            raise
        open_run(directory, settings, overwrite=True, recipe="kbert.predict_file")
    answers = _Answers(directory)
    is_kept = False
    try:
        yield answers
    except ValueError:  # an error in the rows would occur again
        raise
    except BaseException:
        is_kept = bool(answers.parts)
        raise
    finally:
        unlock_directory(directory)
        if not is_kept:
            shutil.rmtree(directory)


def check_output(pipeline: Any, output: pathlib.Path, overwrite: bool) -> None:
    """Checks that answers can be written to a file; call it before long work."""
    check_bool(overwrite, "`overwrite`")
    if output.suffix.lower() not in _FORMATS:
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


def rows_at_once(pipeline: Any, batch_size: int) -> int:
    """The rows of a batch: `batch_size`, of an export at most what it answers at once."""
    (batch_size,) = check_positive("predict_file", batch_size=batch_size).values()
    return min(batch_size, getattr(pipeline, "max_rows", batch_size))


def answered_rows(
    pipeline: Any, rows: Sequence[dict[str, Any]], columns: Mapping[str, TextColumns], batch_size: int
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(row, answer) of each row of a batch. Batches are always full, so that the model is traced only once."""
    batch = {name: [each.text(row) for row in rows] for name, each in columns.items()}
    for values in batch.values():
        empty = [""] * len(values[-1]) if isinstance(values[-1], list | tuple) else ""
        values.extend([empty] * (batch_size - len(rows)))
    answers = pipeline.predict_on_batch(batch)
    yield from zip(rows, pipeline.answers.to_dicts(answers), strict=False)


def answer_lines(rows: Iterable[tuple], answers: "Answers", suffix: str, header: bool) -> bytes:
    """The lines of answered rows, .jsonl or .csv by `suffix`; `header`: whether a table begins here."""
    if suffix.lower() == ".jsonl":
        entries = (_joined(row, result) for row, result in rows)
        return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries).encode()
    file = io.StringIO(newline="")
    writer = None
    for row, result in rows:
        cells = _joined(row, answers.table_row(result))
        if writer is None:
            writer = csv.DictWriter(file, cells)
            if header:
                writer.writeheader()
        writer.writerow(cells)
    return file.getvalue().encode()


def _joined(row: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    if clash := set(row) & set(result):
        raise ValueError(f"columns of the input have the names of answers: {sorted(clash)}; rename them")
    return row | result
