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
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from kbert.aliases import PathLike
from kbert.checks import check_output_file
from kbert.files import atomic_file, check_file, explain_full_disk, flush, sha256, write_json
from kbert.finetuning.prediction_rows import rows_to_answer
from kbert.locks import locked_output, unlock_directory
from kbert.options import Count, checked
from kbert.training.callbacks import PredictionProgress
from kbert.training.run_directory import open_run
from kbert.weights.step_paths import METRICS

if TYPE_CHECKING:
    from kbert.pipelines.pipeline import Pipeline
    from kbert.pipelines.text_columns import TextColumns
    from kbert.serving.exported_pipeline import ExportedPipeline

_LOGGER = logging.getLogger("kbert")
_FORMATS = (".jsonl", ".csv")
_SECONDS = 20.0  # of answers in a part: what a killed run loses
_WHOLE = "whole"  # in the directory of parts: the hash of the whole output


@checked
def predict_file(
    pipeline: "Pipeline | ExportedPipeline",
    source: PathLike,
    output: PathLike,
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    format: Literal["table", "swag", "dream"] | None = None,
    keep: Sequence[str] = (),
    trained: Mapping[str, Any] | None = None,
    batch_size: Count = 32,
    made_by: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> int:
    """Writes the answers to all rows of a file, in their order; logs how many are done.

    The output file appears when all rows are done. Until then the answers are parts in the directory
    ``<output>.partial``. After a kill, the same call resumes from there with the same result as an uninterrupted one.
    One process at a time writes to an output. Of a symbolic link, the file that it points to is written.
    ``<output>.metrics.json`` has the settings, the number of rows and the time.

    Args:
        pipeline: `kbert.Pipeline` or `kbert.serving.ExportedPipeline`.
        source: .csv, .tsv, .jsonl, .parquet, .arrow or .feather, read by columns; the formats of the pipeline's task
            (questions: SQuAD's .json); any other file is read line by line, with tabs between several inputs.
        output: .jsonl, or .csv if an answer is a row of a table.
        columns: input of the pipeline → column of the file, or a list of columns that are joined to one text (for
            multiple choice: the columns of the choices). Defaults to the columns of the training if the file has them,
            else to the names of the inputs.
        format: of files for multiple choice. Defaults to the format of the training if `columns` are not given.
        keep: columns of the input to copy to the output, in addition to the texts.
        trained: `kbert.serving.trained_options` of the model, with its columns and format. A fine-tuned
            `kbert.Pipeline` knows the columns of its texts.
        batch_size: rows per forward pass, of an export at most what it answers at once.
        made_by: what the .metrics.json says under "settings". Defaults to the options of this call.
        overwrite: replace an existing `output`, or the unfinished one of another run.

    Returns:
        The number of rows.

    Raises:
        FileNotFoundError: there is no such source.
        FileExistsError: `output` exists, or is being written from other inputs, another model or other options.
        ValueError: no rows; a source that is the output, or changes while it is read; columns that are missing or have
            the names of answers; answers that do not fit a table; a cell that is too large.
        BlockingIOError: another process writes to `output`.
        WriteFault: the disk is full; the same call resumes.

    Example::

        kbert.finetuning.predict_file(run.pipeline, "new.csv", "answers.jsonl", columns={"text": "review"}, keep=["id"])
    """
    start = time.monotonic()
    source, output = _check_paths(pipeline, source, output)
    with explain_full_disk(output), locked_output(output) as place:
        directory = _directory_of_parts(place)
        check_output_file(output, overwrite)
        inputs, rows = rows_to_answer(pipeline, source, columns, keep, trained, format)
        batch_size = min(batch_size, getattr(pipeline, "max_rows", batch_size))
        settings = {
            "source": sha256(source),
            "columns": {name: dataclasses.asdict(each) for name, each in inputs.items()},
            "format": format,
            "keep": keep,
            "batch_size": batch_size,
            "pipeline": pipeline.fingerprint(),
        }
        with _unfinished(directory, settings, overwrite) as answers:
            progress = PredictionProgress(len(rows), batch_size, before=answers.rows)
            if answers.rows:
                _LOGGER.info("%s: %s of %s rows are done; resuming.", output, f"{answers.rows:,}", f"{len(rows):,}")
            for batch in rows.batches(answers.rows, batch_size):
                answered = _answer(pipeline, batch, inputs, batch_size)
                answers.add(_lines(pipeline, answered, output, has_header=not answers.rows), len(batch))
                progress.done(answers.rows)
            if answers.rows != len(rows) or not source.is_file() or sha256(source) != settings["source"]:
                raise ValueError(f"{source} changed while it was read: give the same command again")
            check_output_file(output, overwrite)  # another program may have written it
            seconds = round(time.monotonic() - start, 1)
            answers.join(place, {"settings": made_by or settings, "texts": answers.rows, "seconds": seconds})
    return answers.rows


def check_output(output: PathLike, overwrite: bool) -> None:
    """Raises an error unless answers can be written to a file; call it before a model is loaded."""
    check_output_file(output, True, _FORMATS)
    with locked_output(output) as place:
        _directory_of_parts(place)
        check_output_file(output, overwrite)


def _check_paths(pipeline, source: PathLike, output: PathLike) -> tuple[pathlib.Path, pathlib.Path]:
    source, output = pathlib.Path(source), check_output_file(output, True, _FORMATS)
    check_file(source, "a file of inputs")
    if os.path.realpath(source) == os.path.realpath(output):
        raise ValueError(f"predict_file: `output` must differ from `source`. Received: {output}")
    if output.suffix.lower() == ".csv" and not pipeline.answers.fits_table:
        raise ValueError(
            f"The answers {sorted(pipeline.output)} of a {pipeline.task} model cannot be written as CSV; give --output "
            "a name in .jsonl"
        )
    return source, output


def _directory_of_parts(output: pathlib.Path) -> pathlib.Path:
    """The directory for parts of the output. Removes one left by a run killed after it had written its output."""
    directory = output.with_name(f"{output.name}.partial")
    if directory.is_symlink():
        raise FileExistsError(f"Expected a directory, or none. Received: {directory}, a link; delete it")
    whole = directory / _WHOLE
    if whole.is_file() and output.is_file() and whole.read_text() == sha256(output):
        _delete(directory)
    return directory


def _delete(directory: pathlib.Path) -> None:
    """Deletes the parts. The file that says that the output is whole is the last one: a kill may come in between."""
    for path in directory.iterdir():
        if path.name != _WHOLE:
            path.unlink()
    shutil.rmtree(directory)


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

    def join(self, output: pathlib.Path, metrics: dict[str, Any]) -> None:
        """Writes all answers to the output, and its metrics before it: an output that is there is complete."""
        joined, described = self.directory / "answers", self.directory / "metrics"  # not METRICS, of a finished run
        with atomic_file(joined, "wb") as file:
            for path in self.parts:
                with open(path, "rb") as part:
                    shutil.copyfileobj(part, file)
            file.writelines(self._lines)
        write_json(described, metrics)
        with atomic_file(self.directory / _WHOLE) as file:
            file.write(sha256(joined))
        os.replace(described, output.with_name(f"{output.name}.{METRICS}"))
        os.replace(joined, output)
        flush(output.parent)


@contextlib.contextmanager
def _unfinished(directory: pathlib.Path, settings: dict, overwrite: bool) -> Iterator[_Answers]:
    """The answers of an earlier start of this run, if there was one; they are kept if this one is killed, too."""
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
    except BaseException as error:
        is_kept = bool(answers.parts) and not isinstance(error, ValueError)  # which would occur again in these rows
        raise
    finally:
        unlock_directory(directory)
        if not is_kept:
            _delete(directory)


def _answer(
    pipeline: Any, rows: Sequence[dict[str, Any]], columns: "Mapping[str, TextColumns]", batch_size: int
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(row, answer) of each row of a batch. Batches are always full, so that the model is traced only once."""
    batch = {name: [each.text(row) for row in rows] for name, each in columns.items()}
    for values in batch.values():
        empty = [""] * len(values[-1]) if isinstance(values[-1], list | tuple) else ""
        values.extend([empty] * (batch_size - len(rows)))
    answers = pipeline.predict_on_batch(batch)
    return list(zip(rows, pipeline.answers.to_dicts(answers), strict=False))


def _lines(pipeline: Any, answered: Sequence[tuple], output: pathlib.Path, has_header: bool) -> bytes:
    """The lines of answered rows, as JSON or as those of a table, by the name of the output."""
    if output.suffix.lower() == ".jsonl":
        entries = [_joined(row, answer) for row, answer in answered]
        return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries).encode()
    entries = [_joined(row, pipeline.answers.table_row(answer)) for row, answer in answered]
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, entries[0])
    if has_header:
        writer.writeheader()
    writer.writerows(entries)
    return file.getvalue().encode()


def _joined(row: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    if clash := set(row) & set(answer):
        raise ValueError(f"columns of the input have the names of answers: {sorted(clash)}; rename them")
    return row | answer
