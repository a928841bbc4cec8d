"""Writes the answers to every row of a file, by an Apache Beam pipeline: the file that `predict_file` writes.

    rows ─► numbered parts of the rows ─► parts of the answers ─► answer file
            the starting program          one worker a part       the starting program

Parts are files in a directory that all workers share; only their numbers pass through the pipeline.
"""

import functools
import hashlib
import itertools
import json
import pathlib
from collections.abc import Mapping, Sequence

from kbert.beam import SharedDirectory, delete_shared, import_beam, load_once, run_beam
from kbert.checks import check_path
from kbert.files import atomic_file, explain_full_disk, sha256
from kbert.finetuning.prediction_rows import answer_lines, answered_rows, check_output, rows_at_once, rows_to_answer
from kbert.locks import locked_output

_PART_ROWS = 1024  # about how many rows a worker answers at once


def predict_file_with_beam(
    load,
    source,
    output,
    *,
    runner: str,
    beam_flags: Sequence[str] = (),
    shared=None,
    columns: Mapping[str, str] | None = None,
    trained: Mapping | None = None,
    keep: Sequence[str] = (),
    batch_size: int = 32,
    overwrite: bool = False,
    **reading,
) -> int:
    """Writes the answers to all rows of a file, in their order, computed by the workers of an Apache Beam runner.

    The output is that of `kbert.finetuning.predict_file`: batches are the same, and the parts are joined in
    their order when all are done. Each worker process loads the model once. The same call after a kill answers only
    the parts that are missing.

    Args:
        load: function without arguments that can be pickled and returns the `kbert.Pipeline` or
            `kbert.serving.ExportedPipeline`; called here and in each worker process, which must find
            the model under the same path.
        source, output, columns, trained, keep, batch_size, overwrite, **reading: see `predict_file`.
        runner: a name that Apache Beam knows, such as ``DirectRunner`` or ``FlinkRunner``.
        beam_flags: Beam's own flags, such as ``--direct_num_workers=4``.
        shared: a directory that all workers see under this path, for the rows and their answers; None: one beside
            `output`.

    Returns:
        The number of rows.

    Raises:
        FileExistsError: `output` exists.
        BlockingIOError, FullDisk: as `predict_file`.
        ValueError: as `predict_file`; an unknown runner.
        RuntimeError: Apache Beam is not installed, workers do not see `shared` or have another model, or the pipeline
            failed.
    """
    import_beam()
    source = check_path(source, "predict_file_with_beam: `source`")
    output = check_path(output, "predict_file_with_beam: `output`")
    pipeline = load()
    with explain_full_disk(output), locked_output(output) as place:
        check_output(pipeline, output, overwrite)
        columns, rows = rows_to_answer(pipeline, source, columns, keep, trained, **reading)
        batch_size = rows_at_once(pipeline, batch_size)
        job = _Job(load, pipeline.fingerprint(), columns, batch_size, output.suffix)
        content = [sha256(source), job.fingerprint, columns, list(keep), batch_size, output.suffix, reading]
        name = "answers-" + hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
        own = place.with_name(place.name + ".parts")
        job.shared = SharedDirectory((own if shared is None else pathlib.Path(shared).absolute()) / name)
        job.shared.open()
        try:
            parts = _write_parts(job, rows)
            run_beam(runner, beam_flags, functools.partial(_build, job=job, parts=parts))
            job.shared.raise_reported(ValueError)
        except ValueError:
            # An error of the rows would occur again; one of the runner's name must not cost what is done.
            if job.shared.failed() or not any(pathlib.Path(job.shared.path).glob("answers-*")):
                _delete(job, own)
            raise
        with atomic_file(place, "wb") as file:
            for number in range(parts):
                file.write(job.shared.read(_answers(number)))
        _delete(job, own)
    return len(rows)


class _Job:
    """What every worker must know; pickled, without the model."""

    shared: SharedDirectory

    def __init__(self, load, fingerprint, columns, batch_size, suffix):
        self.load = load
        self.fingerprint = fingerprint
        self.columns = columns
        self.batch_size = batch_size
        self.suffix = suffix
        self.part_batches = max(1, _PART_ROWS // batch_size)

    def pipeline(self):
        """The pipeline of this process."""
        return load_once(self.fingerprint, self._load)

    def _load(self):
        self.shared.check()
        pipeline = self.load()
        if pipeline.fingerprint() != self.fingerprint:
            raise RuntimeError("Expected workers to find the model of the starting program. Received: another model.")
        return pipeline


def _delete(job, own):
    job.shared.delete()
    delete_shared(own)


def _write_parts(job, rows):
    """Writes the rows in numbered parts, whole batches each; returns how many parts."""
    batches = rows.batches(0, job.batch_size)
    for number in itertools.count():
        part = list(itertools.islice(batches, job.part_batches))
        if not part:
            return number
        if not job.shared.exists(_rows(number)):
            job.shared.write_json(_rows(number), part)


def _build(pipeline, job, parts):
    beam = import_beam()
    (
        pipeline
        | "parts" >> beam.Create(range(parts))
        | "share out parts" >> beam.Reshuffle()
        | "answer" >> beam.Map(functools.partial(_answer_part, job))
    )


def _answer_part(job, number):
    shared = job.shared
    lines = []
    if shared.exists(_answers(number)) or shared.failed():
        return number
    with shared.reporting(number):
        pipeline = job.pipeline()
        for position, batch in enumerate(shared.read_json(_rows(number))):
            header = number == 0 and position == 0
            answered = answered_rows(pipeline, batch, job.columns, job.batch_size)
            lines.append(answer_lines(answered, pipeline.answers, job.suffix, header))
        shared.write(_answers(number), b"".join(lines))
    return number


def _rows(number):
    return f"rows-{number:06d}.json"


def _answers(number):
    return f"answers-{number:06d}"
