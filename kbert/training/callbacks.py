"""Callbacks as a list; lines on the console, of a training and of long predictions."""

import logging
import time
from collections.abc import Sequence
from typing import Any

import keras

from kbert.training.logs import complete_logs, is_chief

_LOGGER = logging.getLogger("kbert")
_SETTING_RATE = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)
_NOT_ON_CONSOLE = set(
    "step total_steps seconds steps_per_second gradient_norm time_fraction seconds_left flops_per_second".split()
)
_SECONDS = 10  # between two lines


def callback_list(
    function: str, callbacks: keras.callbacks.Callback | Sequence[keras.callbacks.Callback], has_own_rate: bool = False
) -> list[keras.callbacks.Callback]:
    """Keras callbacks as a list, a single one as well."""
    listed = list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks]
    if wrong := [callback for callback in listed if not isinstance(callback, keras.callbacks.Callback)]:
        raise TypeError(
            f"{function}: `callbacks` must be a keras.callbacks.Callback, or a list of them. Received: {wrong[0]!r}"
        )
    setting_rate = [callback for callback in listed if isinstance(callback, _SETTING_RATE)]
    if has_own_rate and setting_rate:
        raise ValueError(
            f"{function}: `callbacks` cannot set the learning rate, which has a schedule of its own. "
            f"Received: {setting_rate[0]!r}"
        )
    return listed


class ConsoleProgress(keras.callbacks.Callback):
    """Logs a line per window: step, losses, accuracies, rate, speed, time left.

    A window is an epoch of plain `model.fit`. There is also a line after the first step, which takes longest.

    Example::

        fit_steps(model, make_dataset, 1000, "runs/tiny", callbacks=[ConsoleProgress()])
    """

    def __init__(self):
        super().__init__()
        self._begun = False

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._start = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if not self._begun and is_chief(self.model):
            _LOGGER.info("first step done after %.1f s", time.perf_counter() - self._start)
        self._begun = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if not is_chief(self.model):
            return
        logs = complete_logs(logs, self.model)
        total = f"/{logs['total_steps']}" if "total_steps" in logs else ""
        parts = [f"step {logs['step']}{total}"]
        hidden = _NOT_ON_CONSOLE | ({"real_tokens_per_second"} if "tokens_per_second" in logs else set())
        for name, value in logs.items():
            if name not in hidden and not name.endswith(("cross_entropy", "perplexity")):
                parts.append(_show(name, value))
        if "seconds_left" in logs:
            parts.append(f"{clock(max(0, logs['seconds_left']))} left")
        elif total and logs.get("steps_per_second"):
            parts.append(f"{clock((logs['total_steps'] - logs['step']) / logs['steps_per_second'])} left")
        _LOGGER.info("%s", "  ".join(parts))


def _show(name: str, value: float) -> str:
    if name.endswith("tokens_per_second"):
        return f"{value:,.0f} {name.removesuffix('_per_second').replace('_', ' ')}/s"
    if name == "learning_rate":
        return f"lr {value:.3g}"
    return f"{name} {value:.4f}"


class PredictionProgress(keras.callbacks.Callback):
    """Logs the rows done and an estimate of the remaining time every ten seconds; nothing for short predictions."""

    def __init__(self, rows: int, batch_size: int, before: int = 0, what: str = "rows predicted"):
        super().__init__()
        self.what = what
        self.rows = rows
        self.batch_size = batch_size
        self.before = before
        self.start = self.shown = time.perf_counter()

    def on_predict_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.done((batch + 1) * self.batch_size)

    def done(self, rows: int) -> None:
        """Reports the rows done where there is no Keras loop to count them."""
        now, rows = time.perf_counter(), min(rows, self.rows)
        if now - self.shown >= _SECONDS and rows < self.rows:
            self.shown = now
            left = clock((now - self.start) / (rows - self.before) * (self.rows - rows))
            _LOGGER.info("%s of %s %s, %s left", f"{rows:,}", f"{self.rows:,}", self.what, left)


def clock(seconds: float) -> str:
    """Seconds as hours, minutes and seconds: "1:02:03"."""
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
