"""Callbacks as a list, and the console lines of long predictions."""

import logging
import time
from collections.abc import Sequence
from typing import Any

import keras

_LOGGER = logging.getLogger("kbert")
_SETTING_RATE = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)
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
