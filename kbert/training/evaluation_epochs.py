"""A caller's callbacks in a run that is evaluated on a dev set: an epoch of theirs ends with each evaluation."""

from collections.abc import Mapping, Sequence

import keras


class EvaluationEpochs(keras.callbacks.Callback):
    """Passes the calls of `fit_steps` on to callbacks that are written for epochs with a validation each.

    Their epoch ends with the window of steps in which an evaluation fell, so that its logs have the scores that
    ``EarlyStopping`` and ``ModelCheckpoint`` watch. Their training begins and ends once, however often `fit_steps`
    calls `fit`.

    Args:
        callbacks: Keras callbacks; those that watch a score in mode "auto" are told whether it should rise.
        evaluation: `kbert.training.dev_evaluation.DevEvaluation` of the run.
        modes: score → "min" or "max"; of others Keras has to know it.
    """

    def __init__(self, callbacks: Sequence[keras.callbacks.Callback], evaluation, modes: Mapping[str, str]):
        super().__init__()
        self.callbacks, self.evaluation = callbacks, evaluation
        self._begun = self._in_epoch = False
        for callback in callbacks:
            score = str(getattr(callback, "monitor", "")).removeprefix("val_")
            if getattr(callback, "mode", None) == "auto" and score in modes:
                callback.mode = modes[score]

    def set_params(self, params):
        self._call("set_params", params)

    def set_model(self, model):
        super().set_model(model)
        self._call("set_model", model)

    def on_train_begin(self, logs=None):
        if not self._begun:
            self._call("on_train_begin", logs)
        self._begun = True

    def on_epoch_begin(self, epoch, logs=None):
        if not self._in_epoch:
            self._call("on_epoch_begin", len(self.evaluation.records), logs)
        self._in_epoch = True

    def on_train_batch_begin(self, batch, logs=None):
        self._call("on_train_batch_begin", batch, logs)

    def on_train_batch_end(self, batch, logs=None):
        self._call("on_train_batch_end", batch, logs)

    def on_epoch_end(self, epoch, logs=None):
        if any(name.startswith("val_") for name in logs):
            self._call("on_epoch_end", len(self.evaluation.records) - 1, logs)
            self._in_epoch = False

    def on_train_end(self, logs=None):
        records, last = self.evaluation.records, max(self.evaluation.steps)
        if self.model.stop_training or (records and records[-1]["step"] == last):
            self._call("on_train_end", logs)

    def _call(self, hook, *arguments):
        for callback in self.callbacks:
            getattr(callback, hook)(*arguments)
