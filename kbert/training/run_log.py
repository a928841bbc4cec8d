"""What a training says of itself: a line per window on the console and in history.jsonl, and its speed."""

import json
import logging
import math
import os
import pathlib
import time
from typing import Any

import keras

from kbert.checks import check_directory
from kbert.files import atomic_file, explain_full_disk, parse_json
from kbert.training.callbacks import clock
from kbert.training.logs import complete_logs, is_chief, updates_done

HISTORY = "history.jsonl"
_LOGGER = logging.getLogger("kbert")
_NOT_RECORDED = ("total_steps", "flops_per_second")
_NOT_ON_CONSOLE = set("step total_steps seconds steps_per_second gradient_norm flops_per_second".split())


class RunLog(keras.callbacks.Callback):
    """Measures the speed of a training, and logs each window of `train`, or epoch of `fit`.

    On the console there is a line with step, losses, accuracies, rate, speed and time left, and one after the first
    step, which takes longest. In a directory, the file ``history.jsonl`` has the same numbers.

    To the logs of the callbacks after it, it adds "seconds" and "steps_per_second", and in `train` on batches of one
    shape "tokens_per_second" and "flops_per_second". Evaluations and the saving of checkpoints are not counted.

    Args:
        output: path of a directory, whose ``history.jsonl`` a resumed run continues; None: only the console.
        real_tokens: how many tokens of a batch are not padding on average, for "real_tokens_per_second".

    Attributes:
        records: list of dicts, the logs of every window of the run, including those before it was resumed.

    Raises:
        NotADirectoryError: `output` is a file, or below one.

    Example::

        model.fit(dataset, steps_per_epoch=100, epochs=10, callbacks=[RunLog("runs/tiny")], verbose=0)
    """

    def __init__(self, output: str | os.PathLike | None = None, real_tokens: float | None = None):
        super().__init__()
        self.path = None if output is None else check_directory(output, "RunLog: `output`") / HISTORY
        self.real_tokens = real_tokens
        self.records = [] if self.path is None else read_history(self.path)
        self._begun = False

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._start = time.perf_counter()
        if is_chief(self.model):
            self.begin(self.params.get("start", updates_done(self.model.optimizer)))

    def begin(self, step: int) -> None:
        """Drops the records of steps that are done again: a checkpoint may be older than the last of them."""
        self.records = [record for record in self.records if 0 < step >= record["step"]]
        if self.path is not None and self.path.exists():
            with atomic_file(self.path) as file:
                file.writelines(map(_line, self.records))

    def append(self, record: dict) -> None:
        """Adds the record of a window; numbers that are not finite, which JSON cannot hold, are written as null."""
        self.records.append(record)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with explain_full_disk(self.path), open(self.path, "a", encoding="utf-8") as file:
                file.write(_line(record))
                file.flush()
                os.fsync(file.fileno())

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._start = time.perf_counter()
        self._batches = self._first_batches = 0

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._end = time.perf_counter()
        self._batches = batch + 1
        if not self._first_batches:
            self._first_batches, self._first_end = self._batches, self._end
        if not self._begun and is_chief(self.model):
            _LOGGER.info("first step done after %.1f s", self._end - self._start)
        self._begun = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        in_steps = "step" in logs  # in `train`; to the callbacks of a plain `fit` names stay Keras'
        complete = complete_logs(logs, self.model)
        if "loss" in logs:  # not the scores before the first step
            complete |= self._speed()
        if in_steps:
            logs.update(complete)
        if is_chief(self.model):
            self.append({name: value for name, value in complete.items() if name not in _NOT_RECORDED})
            _LOGGER.info("%s", _console_line(complete))

    def _speed(self):
        """Without the first batch of a window if there are others: it may include tracing."""
        batches = self._batches - self._first_batches or self._batches
        begun = self._start if batches == self._batches else self._first_end
        rate = batches / max(self._end - begun, 1e-9)
        speed = {"seconds": self._end - self._start, "steps_per_second": rate}
        of_step = {name: self.params.get(name) for name in ("tokens", "flops")} | {"real_tokens": self.real_tokens}
        return speed | {f"{name}_per_second": number * rate for name, number in of_step.items() if number}


def _console_line(logs):
    total = f"/{logs['total_steps']}" if "total_steps" in logs else ""
    parts = [f"step {logs['step']}{total}"]
    hidden = _NOT_ON_CONSOLE | ({"real_tokens_per_second"} if "tokens_per_second" in logs else set())
    for name, value in logs.items():
        if name not in hidden and not name.endswith(("cross_entropy", "perplexity")):
            parts.append(_show(name, value))
    if total and "steps_per_second" in logs:
        parts.append(f"{clock((logs['total_steps'] - logs['step']) / logs['steps_per_second'])} left")
    return "  ".join(parts)


def _show(name: str, value: float) -> str:
    if name.endswith("tokens_per_second"):
        return f"{value:,.0f} {name.removesuffix('_per_second').replace('_', ' ')}/s"
    if name == "learning_rate":
        return f"lr {value:.3g}"
    return f"{name} {value:.4f}"


def training_minutes(records: list[dict]) -> float:
    """Minutes of the steps in a run's records, of all its processes; evaluations and starts are not counted."""
    return sum(record.get("seconds") or 0.0 for record in records) / 60


def _line(record: dict) -> str:
    finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
    return json.dumps(finite, allow_nan=False) + "\n"


def read_history(path: str | os.PathLike) -> list[dict]:
    """The records of such a file, none if there is no file; a damaged line is reported and dropped."""
    records = []
    lines = pathlib.Path(path).read_bytes().splitlines() if os.path.exists(path) else ()
    for number, line in enumerate(lines, start=1):
        try:
            records.append(parse_json(line, f"{path}, line {number}"))
        except ValueError as error:  # a kill may cut the last line off
            _LOGGER.warning("%s This line is dropped.", error)
    return records
