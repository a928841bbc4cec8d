"""TensorBoard's event files, written without importing TensorFlow."""

import os
import pathlib
import socket
import sys
import time
from collections.abc import Iterable

from kbert.aliases import PathLike
from kbert.files import explain_full_disk

_PREFIX = "events.out.tfevents"
INSPECTION = "inspection"  # the run of `kbert.inspect`


class EventFile:
    """An event file in the directory of a run, begun by what is first written; on the disk after `flush`.

    TensorBoard reads a run's files in the order of their names, so names ascend in the order of creation, even within a
    second. The first event gives the step at which the run begins or resumes: TensorBoard then forgets what it has read
    of that step and later ones. Faults of the disk are raised as by `kbert.files.explain_full_disk`.
    """

    def __init__(
        self,
        directory: PathLike,
        start: int | None = None,  # the first step; None: of what is first written
    ) -> None:
        self._directory = pathlib.Path(directory)
        self._start = start
        self._writer = None

    def write(self, step: int, values: Iterable) -> None:
        """Adds values of `kbert.inspection.board.summaries`."""
        from tensorboard.compat.proto import event_pb2, summary_pb2

        if not (values := list(values)):
            return
        with explain_full_disk(self._directory):
            if self._writer is None:
                self._begin(step if self._start is None else self._start)
            self._write(event_pb2.Event(step=step, summary=summary_pb2.Summary(value=values)))

    def flush(self) -> None:
        """Hands what was written to the system."""
        if self._writer is not None:
            with explain_full_disk(self._directory):
                self._writer.flush()

    def close(self) -> None:
        """Writes what is left, and closes the file; a later `write` begins another."""
        if self._writer is not None:
            with explain_full_disk(self._directory):
                self._writer.close()
        self._writer = None

    def _begin(self, start):
        from tensorboard.compat.proto import event_pb2

        self._directory.mkdir(parents=True, exist_ok=True)
        self._writer = _record_writer(self._directory / _new_name(self._directory))
        self._write(event_pb2.Event(file_version="brain.Event:2"))
        started = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._write(event_pb2.Event(step=start, session_log=started))

    def _write(self, event):
        event.wall_time = time.time()
        self._writer.write(event.SerializeToString())


def event_files(directory: PathLike) -> list[pathlib.Path]:
    """The event files of a run, in the order in which TensorBoard reads them."""
    return sorted(path for path in pathlib.Path(directory).glob(f"{_PREFIX}.*") if path.is_file())


def _new_name(directory):
    """A name that sorts after all existing ones, even if the clock was set back."""
    before = event_files(directory)
    seconds = int(time.time())
    if before and (last := before[-1].name.split(".")[3]).isdigit():
        seconds = max(seconds, int(last))
    return f"{_PREFIX}.{seconds:010d}.{len(before):06d}.{socket.gethostname()}.{os.getpid()}"


def _record_writer(path):
    if sys.modules.get("tensorflow") is not None:
        import tensorflow as tf

        return tf.io.TFRecordWriter(str(path))
    from tensorboard.summary.writer.record_writer import RecordWriter  # slower: its checksums are in Python

    return RecordWriter(open(path, "wb"))
