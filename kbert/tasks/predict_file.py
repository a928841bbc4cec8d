"""Writes a pipeline's answers to every row of a file; a killed run resumes."""

import contextlib
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence

from kbert.checks import check_path
from kbert.files import explain_full_disk, flush, read_json, sha256, write_json
from kbert.tasks.answered_rows import answered_rows, check_output, rows_at_once, write_answers
from kbert.tasks.prediction_rows import rows_to_answer
from kbert.training.progress import PredictionProgress

_LOGGER = logging.getLogger("kbert")
_SECONDS = 20.0  # between two states from which a killed run can resume


def predict_file(
    pipeline,
    source,
    output,
    *,
    columns: Mapping[str, str] | None = None,
    trained: Mapping | None = None,
    keep: Sequence[str] = (),
    batch_size: int = 32,
    overwrite: bool = False,
    **reading,
) -> int:
    """Writes the answers to all rows of a file, in their order; logs how many are done.

    The output file appears when all rows are done. Until then the answers go to ``<output>.partial``, and
    ``<output>.partial.json`` records how many there are. After a kill, the same call resumes from there with the same
    result as an uninterrupted one.

    Args:
        pipeline: `kbert.Pipeline` or `kbert.serving.ExportedPipeline`.
        source: file of inputs: see `kbert.tasks.read_rows`.
        output: .jsonl, or .csv if an answer is a row of a table.
        columns: input of the pipeline → column of the file.
        trained: `kbert.serving.trained_options` of the model: its columns and format, unless others are
            given. Where a table has no such columns, and by default, they have the names of the inputs.
        keep: columns of the input to copy to the output, in addition to the texts.
        overwrite: replace an existing `output`, or the unfinished one of another run.
        batch_size: rows per forward pass, of an export at most what it answers at once.
        **reading: how the task's reader reads `source`.

    Returns:
        The number of rows.

    Raises:
        FileExistsError: `output` exists, or is being written from other inputs, another model or other options.
        ValueError: no rows; columns that are missing or have the names of answers; answers that do not fit a table.
        OSError: the disk is full; the same call resumes.
    """
    source = check_path(source, "predict_file: `source`")
    output = check_path(output, "predict_file: `output`")
    check_output(pipeline, output, overwrite)
    columns, rows = rows_to_answer(pipeline, source, columns, keep, trained, **reading)
    batch_size = rows_at_once(pipeline, batch_size)
    run = {
        "source": sha256(source),
        "columns": columns,
        "keep": list(keep),
        "batch_size": batch_size,
        "reading": json.loads(json.dumps(reading)),
        "pipeline": pipeline.fingerprint(),
    }
    with _Unfinished(output, run, overwrite) as unfinished:
        done = unfinished.rows
        progress = PredictionProgress(len(rows), batch_size, before=done)
        if done:
            _LOGGER.info("%s: %s of %s rows are done; resuming.", output, f"{done:,}", f"{len(rows):,}")
        for batch in rows.batches(done, batch_size):
            answered = answered_rows(pipeline, batch, columns, batch_size)
            write_answers(unfinished.file, answered, pipeline.answers, output.suffix, header=done == 0)
            done += len(batch)
            unfinished.advance(done)
            progress.done(done)
    return done


class _Unfinished:
    """The output while it is written: a file, and next to it a record of how much of it is complete."""

    def __init__(self, output, run, overwrite):
        self.output, self.run = output, run
        self.partial = output.with_name(output.name + ".partial")
        self.state = output.with_name(output.name + ".partial.json")
        self.rows, self.size = self._stored(overwrite)
        self.new_directories = [parent for parent in output.parents if not parent.exists()]
        output.parent.mkdir(parents=True, exist_ok=True)
        self.file = open(self.partial, "a", encoding="utf-8", newline="")  # noqa: SIM115 - closed by __exit__
        self.file.truncate(self.size)
        self.saved_at = time.monotonic()

    def _stored(self, overwrite):
        """(rows, bytes) of an earlier run."""
        if not (self.state.is_file() and self.partial.is_file()):
            return 0, 0
        stored = read_json(self.state)
        if stored.get("run") == self.run and self.partial.stat().st_size >= stored["bytes"]:
            return stored["rows"], stored["bytes"]
        if not overwrite:
            changed = sorted(name for name in self.run if stored.get("run", {}).get(name) != self.run[name])
            raise FileExistsError(
                f"{self.partial} was started with another {' and '.join(changed)}; --overwrite starts again"
            )
        return 0, 0

    def __enter__(self):
        return self

    def advance(self, rows):
        """Records that the file has the answers to the first `rows` rows."""
        with explain_full_disk(self.partial):
            self.file.flush()
        self.rows, self.size = rows, os.fstat(self.file.fileno()).st_size
        if time.monotonic() - self.saved_at > _SECONDS:
            self._save()
            self.saved_at = time.monotonic()

    def _save(self):
        with explain_full_disk(self.partial):
            os.fsync(self.file.fileno())
        write_json(self.state, {"run": self.run, "rows": self.rows, "bytes": self.size})

    def __exit__(self, kind, error, traceback):
        if kind is None:
            with explain_full_disk(self.output):
                self.file.close()
                flush(self.partial)
            os.replace(self.partial, self.output)
            self.state.unlink(missing_ok=True)
            flush(self.output.parent)
            return
        if issubclass(kind, KeyboardInterrupt) and self.rows:
            self._save()
        self.file.close()
        if issubclass(kind, (KeyboardInterrupt, OSError)) and self.state.is_file():
            return
        self.partial.unlink()  # the same error would occur again
        self.state.unlink(missing_ok=True)
        for directory in self.new_directories:
            with contextlib.suppress(OSError):  # another program has written there meanwhile
                directory.rmdir()
