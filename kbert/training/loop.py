"""Training in steps instead of epochs, with `model.fit`."""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import keras

from kbert.errors import internal_errors, reading_errors
from kbert.keras_compat import base_optimizer, sync_state
from kbert.training.callbacks import callback_list
from kbert.training.divergence import check_finite, check_window
from kbert.training.flops import batch_flops, batch_shape
from kbert.training.logs import optimizer_logs, readable_logs
from kbert.training.memory import check_batch_memory, memory_errors
from kbert.training.signals import give_back_signals
from kbert.training.workers import named_losses

_LOGGER = logging.getLogger("kbert")


def train(
    model: keras.Model,
    make_dataset: Callable,
    steps: int,
    *,
    start: int = 0,
    end: int | None = None,
    log_every: int = 100,
    callbacks: keras.callbacks.Callback | Sequence[keras.callbacks.Callback] = (),
) -> int:
    """Trains a compiled model with `model.fit`, up to step `steps`.

    A step is an update of the weights, by one batch. To the callbacks a window of steps is an epoch: it ends every
    `log_every` steps, wherever a callback evaluates or saves, and at the end. Losses and metrics are means over it.

    A run of several phases, whose batches differ in shape, is a call for each of them, with the same model, optimizer
    and callbacks.

    Args:
        model: compiled, built under its strategy's scope.
        make_dataset: function (start_step) -> `tf.data.Dataset` or `keras.utils.PyDataset` that begins with the batch
            of step `start_step`.
        steps: updates in the whole run.
        start: how many of them are done: `ExactResume.step` of a run that goes on.
        end: the step with which this call ends; None: `steps`.
        log_every: steps of a window. With `steps_per_execution` it is rounded up to a multiple.
        callbacks: Keras callbacks, in this order: `DevScoring`, `RunLog`, others, `ExactResume`. Their logs also have
            "step" (of the whole run), "total_steps", "learning_rate" and "gradient_norm"; names do not depend on the
            number of outputs ("mlm_accuracy").

    Returns:
        The last step; less than `end` where a callback stopped the training.

    Raises:
        TypeError: `callbacks` are none.
        ValueError: the dataset ends too early; a batch that does not fit into memory; an optimizer with
            `gradient_accumulation_steps`; steps that `steps_per_execution` does not divide.
        FloatingPointError: a loss, gradient or weight is no longer finite; with `kbert.AdamW` the message names the
            step, else the steps of the window.
        LostWorker: another worker of the run ended or cannot be reached.
        Interrupted: SIGINT or SIGTERM, where there is an `ExactResume`, which has saved the last step.

    Example::

        def make_dataset(start_step):
            return pretraining_dataset("records", tokenizer, batch_size=32, start_step=start_step)

        log = RunLog("runs/tiny")
        resume = ExactResume("runs/tiny", model, every=500)
        train(model, make_dataset, 1000, start=resume.step, callbacks=[log, resume])
    """
    give_back_signals()  # of a `fit` that an error has ended
    end = steps if end is None else end
    callbacks = callback_list("train", callbacks)
    _check_arguments(model, steps, start, end, log_every)
    if start >= end or any(getattr(callback, "is_stopped", False) for callback in callbacks):
        if start >= steps:
            _LOGGER.info("all %s steps are done", steps)
        return start
    with named_losses():
        dataset = make_dataset(start_step=start)
        cardinality = int(dataset.cardinality())
        if 0 <= cardinality < end - start:
            raise ValueError(
                f"train: expected a dataset of at least {end - start} batches from step {start} on; `.repeat()` it. "
                f"Received: {cardinality}"
            )
        rows, length = batch_shape(dataset)
        check_batch_memory(model, rows or 1, length)
        windows = _Windows(callbacks, dataset, start, end, steps, rounded_up(log_every, model))
        try:
            with internal_errors(), memory_errors(rows, length), reading_errors():
                model.fit(
                    dataset,
                    epochs=1,
                    steps_per_epoch=end - start,
                    callbacks=[windows],
                    shuffle=False,  # Keras warns that it cannot
                    verbose=0,
                )
        finally:
            give_back_signals()
    return windows.step


def rounded_up(steps: int, model: keras.Model) -> int:
    """The next multiple of a model's `steps_per_execution`, after which alone callbacks are called."""
    execution = model.steps_per_execution
    return -(-steps // execution) * execution


def training_steps(examples: int, batch_size: int, epochs: float) -> int:
    """The number of weight updates, as in the original: int(examples / batch size × epochs), at least 1."""
    return max(1, int(examples / batch_size * epochs))


def check_compiled(function: str, model: keras.Model) -> None:
    """Raises ValueError unless a model is compiled with an optimizer."""
    if not getattr(model, "compiled", False) or model.optimizer is None:
        raise ValueError(f"{function}: expected a model compiled with an optimizer. Received: one that is not.")


def _check_arguments(model, steps, start, end, log_every):
    check_compiled("train", model)
    if min(log_every, steps, end) < 1:
        raise ValueError(f"train: `steps` and `log_every` must be at least 1. Received: {steps} and {log_every}")
    optimizer = base_optimizer(model.optimizer)
    if optimizer.gradient_accumulation_steps:
        raise ValueError(
            "train: a batch is a step; model.compile(micro_batches=...) divides it, for less memory. Received: an "
            f"optimizer with gradient_accumulation_steps={optimizer.gradient_accumulation_steps}"
        )
    if (end - start) % model.steps_per_execution:
        raise ValueError(
            "train: `steps` must be a multiple of the model's steps_per_execution. "
            f"Received: steps from {start} to {end} and steps_per_execution={model.steps_per_execution}"
        )


class _Windows(keras.callbacks.Callback):
    """Lets the one epoch of a call of `fit` appear to callbacks as an epoch for each window of steps.

    Keras' own epochs all have the same number of steps, and each call of `fit` opens the dataset anew.
    """

    def __init__(self, callbacks, dataset, start, end, steps, every):
        super().__init__()
        self.callbacks = keras.callbacks.CallbackList(callbacks)
        self.dataset = dataset
        self.start = self.first = self.step = start  # of the call, of the window; the last one done
        self.end = end
        self.steps = steps
        self.every = every
        self._logs = {}

    def set_params(self, params):
        rows, length = batch_shape(self.dataset)
        self.callbacks.set_params(
            params
            | {
                "start": self.start,
                "total_steps": self.steps,
                "tokens": (rows or 0) * (length or 0),  # of a step; 0: not known
                "flops": batch_flops(self.model, self.dataset),
            }
        )

    def set_model(self, model):
        super().set_model(model)
        self.callbacks.set_model(model)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self.callbacks.on_train_begin()
        if self.start == 0 and self._is_due():  # scores of the weights that the run starts from
            self._end_epoch({"step": 0, "total_steps": self.steps})

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.callbacks.on_epoch_begin(self._number())

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.callbacks.on_train_batch_begin(self.start + batch - self.first)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.step = self.start + batch + 1
        self._logs = logs
        self.callbacks.on_train_batch_end(self.step - self.first - 1, logs)
        is_full = self.step // self.every > self.first // self.every
        if is_full or self._is_due():
            self._close(goes_on=self.step < self.end)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self.first < self.step:
            self._close(goes_on=False)
        if self.step < self.end and not self.model.stop_training:
            raise ValueError(
                f"train: expected a dataset that lasts until step {self.end}; `.repeat()` it. "
                f"Received: one that ended after step {self.step}"
            )

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        self.callbacks.on_train_end()

    def _number(self):
        return self.first // self.every

    def _is_due(self):
        return any(callback.closes(self.step) for callback in self.callbacks.callbacks if hasattr(callback, "closes"))

    def _end_epoch(self, logs):
        for callback in self.callbacks.callbacks:  # Keras' list would give them a sorted copy
            callback.on_epoch_end(self._number(), logs)

    def _close(self, goes_on):
        model = self.model
        sync_state(model)
        is_interrupted = any(getattr(callback, "is_interrupted", False) for callback in self.callbacks.callbacks)
        if is_interrupted and "TF_CONFIG" in os.environ:
            logs = self._logs  # other workers do not stop here, to add up their sums with this one's
        else:
            logs = model.get_metrics_result()
        logs = {name: float(keras.ops.convert_to_numpy(value)) for name, value in sorted(logs.items())}
        check_window(model, self.first, self.step, logs)
        check_finite(model, self.first, self.step)  # a diverged model is neither scored nor saved
        logs = {"step": self.step, "total_steps": self.steps} | readable_logs(logs, model)
        self._end_epoch(logs | optimizer_logs(model.optimizer))
        self.first = self.step
        if goes_on and not model.stop_training:
            model.reset_metrics()
            self.callbacks.on_epoch_begin(self._number())
