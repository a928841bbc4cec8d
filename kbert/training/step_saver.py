"""Writes history and checkpoints of a run, for `kbert.training.resume`.

A run that is interrupted within a window, or in the validation at its end, has no record of it yet: the checkpoint has
the sums of the metrics so far, and the resumed run writes the record that an undisturbed one would have written.
"""

import keras

from kbert.keras_compat import sync_state
from kbert.training.divergence import check_finite
from kbert.training.training_state import is_chief

_NOT_RECORDED = ("total_steps", "seconds_left", "flops_per_second")


class StepSaver(keras.callbacks.Callback):
    """The last callback: history, then checkpoint, so that none lacks its history; then ends a run if asked to."""

    def __init__(self, checkpoints, history, recorder, signals, interval):
        super().__init__()
        self.checkpoints, self.history, self.recorder = checkpoints, history, recorder
        self.signals, self.interval, self.saved = signals, interval, recorder.step

    def on_train_batch_end(self, batch, logs=None):
        self.signals.deferring = self.checkpoints is not None
        self._save_if_interrupted()

    def on_test_batch_end(self, batch, logs=None):
        self._save_if_interrupted()

    def on_epoch_end(self, epoch, logs=None):
        check_finite(self.model, self.recorder.first_step, self.recorder.step)
        step, due = logs["step"], logs["step"] // self.interval > self.saved // self.interval
        self._record(logs)
        if due or step == self.recorder.total_steps or self.model.stop_training or self.signals.received:
            self._save()

    def _save_if_interrupted(self):
        if self.signals.received:
            sync_state(self.model)
            window = self.recorder.interrupted_window()
            check_finite(self.model, self.recorder.first_step, self.recorder.step)
            self._save(window=window | {"logs": _recorded(window["logs"])})

    def _record(self, logs):
        if is_chief(self.model):
            self.history.append(_recorded(logs))

    def _clock(self):
        budget = self.recorder.budget
        return {} if budget is None else {"elapsed": budget.elapsed, "starts": self.recorder.stages.starts}

    def _save(self, **facts):
        self.saved = self.recorder.step
        if self.checkpoints is not None and is_chief(self.model):
            self.checkpoints.save(self.saved, self._clock() | facts)
        self.signals.deferring = False
        self.signals.check()


def _recorded(logs):
    return {name: value for name, value in logs.items() if name not in _NOT_RECORDED}
