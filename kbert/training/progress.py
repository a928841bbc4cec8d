"""Progress of long predictions: a log line at intervals, with an estimate of the remaining time."""

import logging
import time

import keras

_LOGGER = logging.getLogger("kbert")
_SECONDS = 10  # between two lines


class PredictionProgress(keras.callbacks.Callback):
    """Logs the rows done and an estimate of the remaining time every ten seconds; nothing for short predictions.

    Args:
        rows: int, all that are to be done.
        batch_size: int, rows a batch.
        before: int, rows that were done before, which say nothing of the speed.
        what: str, what the line says of the rows.
    """

    def __init__(self, rows, batch_size, before=0, what="rows predicted"):
        super().__init__()
        self.what = what
        self.rows, self.batch_size, self.before = rows, batch_size, before
        self.start = self.shown = time.perf_counter()

    def on_predict_batch_end(self, batch, logs=None):
        self.done((batch + 1) * self.batch_size)

    def done(self, rows):
        """Reports the rows done where there is no Keras loop to count them."""
        now, rows = time.perf_counter(), min(rows, self.rows)
        if now - self.shown >= _SECONDS and rows < self.rows:
            self.shown = now
            left = clock((now - self.start) / (rows - self.before) * (self.rows - rows))
            _LOGGER.info("%s of %s %s, %s left", f"{rows:,}", f"{self.rows:,}", self.what, left)


def clock(seconds) -> str:
    """Seconds as hours, minutes and seconds: "1:02:03"."""
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
