"""The curves of a run as a JSON-lines file with one line per window; a resumed run appends to it."""

import json
import logging
import math
import os
import pathlib

from kbert.files import atomic_file, explain_full_disk, parse_json

_LOGGER = logging.getLogger("kbert")


def best_step(records) -> int | None:
    """The step with the lowest held-out loss in the records of a history; None: none was measured."""
    losses = {record["step"]: record["val_loss"] for record in records if record["step"] and "val_loss" in record}
    losses = {step: loss for step, loss in losses.items() if loss is not None and math.isfinite(loss)}
    return min(losses, key=losses.get, default=None)


class History:
    """Records of a run in order, in memory and in a file.

    Args:
        path: of the JSON-lines file, which is read if it exists; None: in memory only. A damaged line is reported and
            dropped, the others are kept.
        step: int; records after this step, which will be run again, are dropped.
        writes: bool, whether the file may be written; of several workers the first does.

    Attributes:
        records: list of dicts, each with "step" and the logs of a window.
    """

    def __init__(self, path, step=0, writes=True):
        self.path = None if path is None else pathlib.Path(path)
        self.writes = writes and path is not None
        self.records = [] if path is None else [record for record in read_history(path) if record["step"] <= step]
        if self.writes and self.path.exists():
            with atomic_file(self.path) as file:
                file.writelines(map(_line, self.records))

    def append(self, record):
        """Add the record of a window; numbers that are not finite, which JSON cannot hold, are written as null."""
        self.records.append(record)
        if not self.writes:
            return
        with explain_full_disk(self.path), open(self.path, "a", encoding="utf-8") as file:
            file.write(_line(record))
            file.flush()
            os.fsync(file.fileno())


def training_minutes(records) -> float:
    """Minutes of the steps in a run's records, of all its processes; evaluations and starts are not counted."""
    return sum(record.get("seconds") or 0.0 for record in records) / 60


def _line(record):
    finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
    return json.dumps(finite, allow_nan=False) + "\n"


def read_history(path) -> list[dict]:
    """The records of such a file, none if there is no file; a damaged line is reported and dropped."""
    path, records = pathlib.Path(path), []
    lines = path.read_bytes().splitlines() if path.exists() else ()
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number}"
        try:
            record = parse_json(line, where, parse_constant=_refuse)
            if not isinstance(record, dict) or not isinstance(record.get("step"), int):
                raise ValueError(f'{where}: expected an object with a whole number "step". Received: {line[:80]!r}')
        except ValueError as error:
            _LOGGER.warning("%s This line is dropped.", error)
        else:
            records.append(record)
    return records


def _refuse(constant):
    raise ValueError(f"{constant} is not JSON")
