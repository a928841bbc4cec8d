"""Writes a pipeline's answers to every row of a file; a killed run resumes."""

import contextlib
import dataclasses
import glob
import hashlib
import json
import logging
import os
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kbert.checks import check_path, differing
from kbert.files import (
    check_file,
    check_signature,
    explain_full_disk,
    flush,
    read_json,
    sha256,
    signed,
    write_json,
)
from kbert.finetuning.prediction_rows import (
    ColumnNames,
    answer_lines,
    answered_rows,
    check_output,
    rows_at_once,
    rows_to_answer,
)
from kbert.locks import locked_output
from kbert.options import PathLike
from kbert.pipelines.text_columns import TextColumns
from kbert.training.callbacks import PredictionProgress

_LOGGER = logging.getLogger("kbert")
_SECONDS = 20.0  # between two states from which a killed run can resume
_AGAIN = "--overwrite starts again"


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

    The output file appears when all rows are done. Until then the answers go to ``<output>.partial``, and
    ``<output>.partial.json`` records how many there are, and their hash. After a kill, the same call resumes from
    there with the same result as an uninterrupted one. One process at a time writes to an output. Of a symbolic link,
    the file that it points to is written.

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
            the names of answers; answers that do not fit a table; a cell that is too large; an unfinished output that
            was damaged.
        BlockingIOError: another process writes to `output`.
        FullDisk: the disk is full; the same call resumes.
    """
    source, output = _check_paths("predict_file", source, output)
    with explain_full_disk(output), locked_output(output) as place:
        check_output(pipeline, output, overwrite)
        columns, rows = rows_to_answer(pipeline, source, columns, keep, trained, **reading)
        batch_size = rows_at_once(pipeline, batch_size)
        run = {
            "source": sha256(source),
            "columns": _as_json(columns),
            "keep": list(keep),
            "batch_size": batch_size,
            "reading": reading,
            "pipeline": pipeline.fingerprint(),
        }
        with _Unfinished(place, run, overwrite) as unfinished:
            progress = PredictionProgress(len(rows), batch_size, before=unfinished.rows)
            if unfinished.rows:
                _LOGGER.info("%s: %s of %s rows are done; resuming.", output, f"{unfinished.rows:,}", f"{len(rows):,}")
            for batch in rows.batches(unfinished.rows, batch_size):
                answered = answered_rows(pipeline, batch, columns, batch_size)
                lines = answer_lines(answered, pipeline.answers, output.suffix, header=not unfinished.rows)
                unfinished.add(lines, len(batch))
                progress.done(unfinished.rows)
            if unfinished.rows != len(rows) or not source.is_file() or sha256(source) != run["source"]:
                raise ValueError(f"{source} changed while it was read: give the same command again")
            check_output(pipeline, output, overwrite)  # another program may have written it
    return unfinished.rows


def _check_paths(owner: str, source: PathLike, output: PathLike) -> tuple[pathlib.Path, pathlib.Path]:
    source = check_path(source, f"{owner}: `source`")
    output = check_path(output, f"{owner}: `output`")
    check_file(source, "a file of inputs")
    if os.path.realpath(source) == os.path.realpath(output):
        raise ValueError(f"Expected another file for the answers than that of the inputs. Received: {output}")
    return source, output


def _as_json(columns: Mapping[str, TextColumns]) -> dict[str, dict]:
    return {name: dataclasses.asdict(each) for name, each in columns.items()}


class _Unfinished:
    """The output while it is written: a file, and next to it a record of how much of it is complete, and its hash."""

    def __init__(self, output: pathlib.Path, run: dict, overwrite: bool):
        self.output = output
        self.run = json.loads(json.dumps(run))
        self.partial = output.with_name(output.name + ".partial")
        self.state = output.with_name(output.name + ".partial.json")
        for path in (self.partial, self.state):
            if path.is_dir():
                raise FileExistsError(f"Expected a file, or none. Received: {path}, a directory; rename it")
        self.done = self._stored(overwrite)  # rows, bytes, hash: at once, as an interrupt may come at any moment
        if not self.rows:  # a link is not written through
            self.partial.unlink(missing_ok=True)
            self.state.unlink(missing_ok=True)
        self.file = open(self.partial, "ab")  # noqa: SIM115 - closed by __exit__
        self.file.truncate(self.done[1])
        self.saved_at = time.monotonic()

    @property
    def rows(self) -> int:
        """The number of rows that are answered."""
        return self.done[0]

    def _stored(self, overwrite: bool) -> tuple:
        """(rows, bytes, hash of these bytes) of an earlier run."""
        if not (self.state.is_file() and self.partial.is_file()):
            return 0, 0, hashlib.sha256()
        try:
            stored = read_json(self.state)
            check_signature(stored, self.state, _AGAIN)
            if changed := differing(stored["run"], self.run):
                raise FileExistsError(f"{self.partial} was started with another {' and '.join(changed)}; {_AGAIN}")
            return stored["rows"], stored["bytes"], self._hash(stored["bytes"], stored["answers_sha256"])
        except (ValueError, FileExistsError):
            if not overwrite:
                raise
            return 0, 0, hashlib.sha256()

    def _hash(self, size: int, expected: str):
        """The hash of the first bytes of the file; ValueError if it is not the expected one."""
        digest = hashlib.sha256()
        left = size
        with open(self.partial, "rb") as file:
            while block := file.read(min(left, 1 << 20)):
                digest.update(block)
                left -= len(block)
        if digest.hexdigest() != expected:
            raise ValueError(f"{self.partial} is damaged, or another program has written to it; {_AGAIN}")
        return digest

    def __enter__(self):
        return self

    def add(self, lines: bytes, rows: int) -> None:
        """Appends the answers to the next rows."""
        before, size, digest = self.done
        digest = digest.copy()
        digest.update(lines)
        self.file.write(lines)
        self.done = before + rows, size + len(lines), digest
        if time.monotonic() - self.saved_at > _SECONDS:
            self._save()
            self.saved_at = time.monotonic()

    def _save(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())
        rows, size, digest = self.done
        done = {"rows": rows, "bytes": size, "answers_sha256": digest.hexdigest()}
        write_json(self.state, signed({"run": self.run, **done}))

    def __exit__(self, kind, error, traceback):
        if kind is None:
            self.file.close()
            flush(self.partial)
            self._hash(self.partial.stat().st_size, self.done[2].hexdigest())
            os.replace(self.partial, self.output)
            for state in (self.state, *self.output.parent.glob(f".{glob.escape(self.state.name)}.*.tmp")):
                state.unlink(missing_ok=True)
            flush(self.output.parent)
            return
        if issubclass(kind, KeyboardInterrupt) and self.rows:
            self._save()
        with contextlib.suppress(OSError):  # the disk is full
            self.file.close()
        if issubclass(kind, ValueError) or not self.state.is_file():
            self.partial.unlink()  # an error in the rows would occur again
            self.state.unlink(missing_ok=True)
