"""The curves of a run as a file of JSON lines, one a window, which a resumed run goes on with."""
import json
import os
import pathlib

from kbert.files import atomic_file


class History:
    """Records of a run in order, in memory and in a file.

    Args:
        path: of the JSON lines file; read if it is there.
        step: int; records after this step (of work that is about to be done again) are dropped, and so is a last line
            that was cut off.

    Attributes:
        records: list of dicts, each with "step" and the logs of a window.

    Example::

        history = History("runs/tiny/history.jsonl", step=200)
        history.append({"step": 300, "loss": 5.1})
    """

    def __init__(self, path, step=0):
        self.path = pathlib.Path(path)
        self.records = [record for record in _read(self.path) if record["step"] <= step]
        if self.path.exists():
            with atomic_file(self.path) as file:
                file.writelines(map(_line, self.records))

    def append(self, record):
        self.records.append(record)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(_line(record))
            file.flush()
            os.fsync(file.fileno())


def _line(record):
    return json.dumps(record) + "\n"


def _read(path):
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return
