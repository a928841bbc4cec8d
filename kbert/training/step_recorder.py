"""Counts the steps of a run and completes the logs of its windows, for `kbert.training.resume`."""

import time

import keras

from kbert.training.batch_memory import batch_shape
from kbert.training.divergence import check_finite, check_window
from kbert.training.log_names import readable_logs
from kbert.training.training_state import optimizer_logs


class StepRecorder(keras.callbacks.Callback):
    """The first callback: counts steps, measures time, and completes the logs for the others."""

    def __init__(self, step, total_steps, real_share, real_tokens, evaluation):
        super().__init__()
        self.step, self.total_steps, self.real_share, self.real_tokens = step, total_steps, real_share, real_tokens
        self.evaluation, self.paused = evaluation, 0.0  # seconds of evaluation since the last step
        self.first_step, self.losses = step, []

    def begin(self, dataset, size):
        self.tokens, self.size = _tokens_per_batch(dataset), size

    def on_epoch_begin(self, epoch, logs=None):
        self.start = self.first_end = time.perf_counter()
        self.first_steps = self.steps = 0
        self.first_step, self.losses, self.paused = self.step, [], 0.0

    def on_train_batch_end(self, batch, logs=None):
        self.end = time.perf_counter()
        self.start, self.first_end, self.paused = self.start + self.paused, self.first_end + self.paused, 0.0
        self.step += batch + 1 - self.steps
        self.steps = batch + 1
        self.last_logs = logs
        self.losses.append((self.step, logs["loss"]))  # not read here: on a GPU that would wait for the step
        if not self.first_steps:
            self.first_end, self.first_steps = self.end, self.steps

    def on_epoch_end(self, epoch, logs=None):
        if self.steps < self.size and not self.model.stop_training:
            raise ValueError(
                f"fit_steps: expected a dataset that lasts until step {self.total_steps}; `.repeat()` it. "
                f"Received: one that ended after step {self.step}"
            )
        self.complete(logs)

    def check(self):
        """Raise a FloatingPointError if the steps of the window so far were not finite."""
        check_window(self.model, self.first_step, self.losses, {})
        check_finite(self.model, self.first_step, self.step)

    def complete(self, logs):
        """Check the logs of a window, or of its part so far, and add to them."""
        check_window(self.model, self.first_step, self.losses, logs)
        named = readable_logs(logs, self.model)
        logs.clear()  # in place: the other callbacks get the same dict
        logs.update({"step": self.step, "total_steps": self.total_steps} | named | optimizer_logs(self.model.optimizer))
        logs.update(self._speed())
        if self.evaluation is not None:
            self.evaluation.merge(logs)

    def _speed(self):
        # The first step of a window is not counted if there are others: it may include tracing, and validation before
        # it.
        steps, seconds = self.steps - self.first_steps, self.end - self.first_end
        if steps == 0:
            steps, seconds = self.steps, self.end - self.start
        speed = {"seconds": self.end - self.start, "steps_per_second": steps / seconds}
        if self.tokens:
            speed["tokens_per_second"] = self.tokens * steps / seconds
            if self.real_share is not None:
                speed["real_tokens_per_second"] = self.real_share * speed["tokens_per_second"]
        if self.real_tokens:
            speed["real_tokens_per_second"] = self.real_tokens * steps / seconds
        return speed


def _tokens_per_batch(dataset):
    """B * S, or 0 if unknown."""
    rows, length = batch_shape(dataset)
    return (rows or 0) * (length or 0)
