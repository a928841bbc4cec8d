"""The first and the last callback of `fit_steps`: one counts steps and completes logs, the other writes them.

A run that is interrupted within a window, or in the validation at its end, has no record of it yet: the checkpoint has
the sums of the metrics so far, and the resumed run writes the record that an undisturbed one would have written.
"""

import keras

from kbert.keras_compat import base_optimizer, sync_state
from kbert.training.divergence import check_finite
from kbert.training.run_state import RunState
from kbert.training.signals import DeferredSignals
from kbert.training.training_state import is_chief

STAGE_ENDED = "stage ended"  # a `model.stop_training` that ends `fit`; True, from other callbacks, ends the run
_NOT_RECORDED = ("total_steps", "seconds_left", "flops_per_second")


class StepRecorder(keras.callbacks.Callback):
    """The first callback: counts steps, measures time, and completes the logs for the others."""

    def __init__(self, run: RunState):
        super().__init__()
        self.run = run

    def on_train_begin(self, logs=None):
        if self.run.budget is not None:
            self.run.budget.begin()
            self._set_rate()

    def on_epoch_begin(self, epoch, logs=None):
        self.run.begin_window(self.model)

    def on_train_batch_end(self, batch, logs=None):
        run = self.run
        run.window.count(batch + 1, logs)
        run.step = run.window.first_step + batch + 1
        if run.budget is not None:
            run.rate_of_step = run.budget.learning_rate
            ended = run.advance(run.step, run.budget.tick(run.step))
            self._set_rate()
            if ended and not self.model.stop_training:
                self.model.stop_training = STAGE_ENDED

    def _set_rate(self):
        base_optimizer(self.model.optimizer).learning_rate = self.run.budget.learning_rate

    def on_epoch_end(self, epoch, logs=None):
        run = self.run
        if run.window.batches < run.size and not self.model.stop_training:
            raise ValueError(
                f"fit_steps: expected a dataset that lasts until step {run.total_steps}; `.repeat()` it. "
                f"Received: one that ended after step {run.step}"
            )
        run.complete(self.model, logs)


class StepSaver(keras.callbacks.Callback):
    """The last callback: history, then checkpoint, so that none lacks its history; then ends a run if asked to.

    Args:
        interval: int, steps between checkpoints.
    """

    def __init__(self, run: RunState, signals: DeferredSignals, interval: int):
        super().__init__()
        self.run, self.signals, self.interval, self.saved = run, signals, interval, run.step

    def on_train_batch_end(self, batch, logs=None):
        self.signals.deferring = self.run.checkpoints is not None
        self._save_if_interrupted()

    def on_test_batch_end(self, batch, logs=None):
        self._save_if_interrupted()

    def on_epoch_end(self, epoch, logs=None):
        run, step = self.run, logs["step"]
        check_finite(self.model, run.window.first_step, step)
        if is_chief(self.model):
            run.history.append(_recorded(logs))
        due = step // self.interval > self.saved // self.interval or step == run.total_steps
        if due or self.model.stop_training or self.signals.received:
            self._save()

    def _save_if_interrupted(self):
        if self.signals.received:
            sync_state(self.model)
            window = self.run.interrupted_window(self.model)
            check_finite(self.model, self.run.window.first_step, self.run.step)
            self._save(window=window | {"logs": _recorded(window["logs"])})

    def _save(self, **facts):
        self.saved = self.run.step
        self.run.save(self.model, **facts)
        self.signals.deferring = False
        self.signals.check()


def _recorded(logs):
    return {name: value for name, value in logs.items() if name not in _NOT_RECORDED}
