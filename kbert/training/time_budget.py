"""A run that lasts for a time instead of a number of steps."""

import contextlib
import logging
import math
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import keras

from kbert.files import atomic_file, explain_full_disk
from kbert.training.logs import updates_done

_LOGGER = logging.getLogger("kbert")
_MEASURED_STEPS = 10  # after the first


class TimeBudget:
    """The clock of a run: how much of its time is over after each step, and the learning rate that follows from it.

    The time of a run counts from the beginning of its first step on, with evaluations and checkpoints, and with the
    tracing (and compiling) of the first step of every phase and of every process; without the time during which no
    process ran. It is stored with every checkpoint, and after every step in the file `FILE` of the run's directory. A
    resumed run repeats the steps between its checkpoint and its end at the recorded times, hence with the same learning
    rates and the same weights; then the clock continues from the last recorded time.

    Args:
        seconds: the time of the run.
        rate: function of the fraction of the time that is over, in [0, 1], that gives the learning rate.
        now: function that gives the time in seconds.

    Attributes:
        elapsed: float, seconds that are over.

    Raises:
        ValueError: `seconds` that are not a finite number above 0.
    """

    FILE = "clock.txt"

    def __init__(self, seconds: float, rate: Callable[[float], float], now: Callable[[], float] = time.monotonic):
        if isinstance(seconds, bool) or not 0 < seconds < math.inf:
            raise ValueError(f"TimeBudget: `seconds` must be a finite number above 0. Received: {seconds!r}")
        self.seconds = float(seconds)
        self.rate = rate
        self.elapsed = 0.0
        self._now = now
        self._path = None
        self._recorded: dict[int, float] = {}  # of the steps after a checkpoint
        self._start = None  # the time at which `elapsed` was 0, once the clock runs

    @property
    def fraction(self) -> float:
        """How much of the time is over, at most 1."""
        return min(self.elapsed / self.seconds, 1.0)

    @property
    def learning_rate(self) -> float:
        """That of the next step."""
        return self.rate(self.fraction)

    def restore(self, step: int, elapsed: float, directory: str | os.PathLike | None = None) -> None:
        """Goes back to a checkpoint, which has `elapsed`, and reads the times recorded for the steps after it.

        Without a directory nothing is recorded.
        """
        self.elapsed = elapsed
        self._start = None
        self._recorded = {}
        if directory is None:
            return
        path = pathlib.Path(directory) / self.FILE
        times = _read(path) if path.exists() else {}
        last = elapsed
        for number in sorted(number for number in times if number > step):
            if times[number] < last:
                break  # damaged: the clock decides from here on
            self._recorded[number] = last = times[number]
        self._path = path
        kept = {number: seconds for number, seconds in times.items() if number <= step} | self._recorded
        with atomic_file(path) as file:
            file.writelines(_line(*entry) for entry in sorted(kept.items()))

    def begin(self) -> None:
        """Starts the clock, unless it runs."""
        if self._start is None:
            self._start = self._now() - self.elapsed

    def tick(self, step: int) -> float:
        """Records that a step is done; returns the fraction of the time that is over."""
        if step in self._recorded:
            self.elapsed = self._recorded.pop(step)
            self._start = None
            self.begin()  # in case that this is the last one recorded
            return self.fraction
        self.elapsed = self._now() - self._start
        if self._path is not None:
            with explain_full_disk(self._path), open(self._path, "a", encoding="utf-8") as file:
                file.write(_line(step, self.elapsed))
        return self.fraction


def _line(step: int, seconds: float) -> str:
    return f"{step} {seconds!r}\n"


def _read(path: pathlib.Path) -> dict[int, float]:
    """step → seconds, of the lines that are whole."""
    times = {}
    *lines, _ = path.read_text(encoding="utf-8", errors="replace").split("\n")  # a process was killed in the last one
    for line in lines:
        step, _, seconds = line.partition(" ")
        with contextlib.suppress(ValueError):  # damaged
            if math.isfinite(float(seconds)):
                times[int(step)] = float(seconds)
    return times


class Forecast(keras.callbacks.Callback):
    """Logs once, by the time of the first steps, how many steps, tokens and epochs a run has time for."""

    def __init__(
        self,
        budget: TimeBudget,
        tokens: int,
        real_fraction: float,
        corpus_tokens: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ):
        super().__init__()
        self.budget = budget
        self.tokens = tokens
        self.real_fraction = real_fraction
        self.corpus_tokens = corpus_tokens
        self._now = now
        self._first = None
        self._logged = False

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._logged:
            return
        step = updates_done(self.model.optimizer)
        if self._first is None:
            self._first = step, self._now()
        elif (done := step - self._first[0]) >= _MEASURED_STEPS:
            self._logged = True
            seconds = (self._now() - self._first[1]) / done
            steps = step + (self.budget.seconds - self.budget.elapsed) / max(seconds, 1e-9)
            tokens = steps * self.tokens
            epochs = f", {tokens * self.real_fraction / self.corpus_tokens:.2f} epochs" if self.corpus_tokens else ""
            _LOGGER.info(
                f"{seconds:.3f} s a step: {self.budget.seconds / 3600:.3g} hours are enough for about {steps:,.0f} "
                f"steps, {tokens:,.0f} tokens with padding{epochs}"
            )
