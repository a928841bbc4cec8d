"""Counts the steps of a run and completes the logs of its windows, for `kbert.training.resume`."""

import math
import time

import keras
import numpy as np

from kbert.keras_compat import base_optimizer, strategy_of
from kbert.training.batch_memory import batch_shape
from kbert.training.divergence import check_finite, check_window
from kbert.training.flops import batch_flops
from kbert.training.log_names import readable_logs
from kbert.training.training_state import optimizer_logs

STAGE_ENDED = "stage ended"  # a `model.stop_training` that ends `fit`; True, from other callbacks, ends the run


class StepRecorder(keras.callbacks.Callback):
    """The first callback of `fit_steps`: counts steps, measures time, and completes the logs for the others.

    Attributes:
        step: int, updates done in the whole run.
    """

    def __init__(self, step, total_steps, stages, budget, real_tokens, evaluation, window=None):
        super().__init__()
        self.step = self.first_step = step
        self.total_steps = total_steps
        self.stages = stages
        self.budget = budget
        self.real_tokens = real_tokens
        self.evaluation = evaluation
        self.paused = 0.0  # seconds of evaluation since the last step
        self.losses = []
        self.window = window  # the part of a window that an interrupted run has done: what `interrupted_window` gave
        self.resumed = None  # that of the window now

    def begin(self, dataset, size, real_share):
        rows, length = batch_shape(dataset)
        self.tokens = (rows or 0) * (length or 0)  # 0: not known
        self.dataset = dataset
        self.size = size
        self.real_share = real_share

    def on_train_begin(self, logs=None):
        if self.budget is not None:
            self.budget.begin()
            self._set_rate()

    def on_epoch_begin(self, epoch, logs=None):
        self.start = self.first_end = time.perf_counter()
        self.first_batches = self.batches = 0
        self.first_step = self.step
        self.losses = []
        self.paused = 0.0
        self.resumed, self.window = self.window, None
        if self.resumed is not None:
            _set_sums(self.model, self.resumed["metrics"])

    def on_train_batch_end(self, batch, logs=None):
        self.end = time.perf_counter()
        self.start += self.paused
        self.first_end += self.paused
        self.paused = 0.0
        self.batches = batch + 1
        self.step = self.first_step + self.batches
        self.last_logs = logs
        self.losses.append((self.step, logs["loss"]))  # read later: on a GPU it would wait
        if not self.first_batches:
            self.first_end, self.first_batches = self.end, self.batches
        if self.budget is not None:
            self._advance()

    def _advance(self):
        """The clock after a step."""
        self.rate_of_step = self.budget.learning_rate
        ended = self.stages.advance(self.step, self.budget.tick(self.step))
        self._set_rate()
        if ended and not self.model.stop_training:
            self.model.stop_training = STAGE_ENDED

    def _set_rate(self):
        base_optimizer(self.model.optimizer).learning_rate = self.budget.learning_rate

    def on_epoch_end(self, epoch, logs=None):
        if self.batches < self.size and not self.model.stop_training:
            raise ValueError(
                f"fit_steps: expected a dataset that lasts until step {self.total_steps}; `.repeat()` it. "
                f"Received: one that ended after step {self.step}"
            )
        self.complete(logs)

    def check(self):
        """Raise a FloatingPointError if the steps of the window so far were not finite."""
        check_window(self.model, self.first_step, self.losses, {})
        check_finite(self.model, self.first_step, self.step)

    def interrupted_window(self) -> dict:
        """What the checkpoint keeps of a window that has no record yet; as JSON can hold it.

        Returns:
            dict: "whole", whether all its steps are done; "logs" so far; "metrics", the sums that these are made of.
        """
        logs = {name: float(value) for name, value in self.last_logs.items()}
        self.complete(logs)
        logs = {name: value if np.isfinite(value) else None for name, value in logs.items()}
        whole = self.batches >= self.size or bool(self.model.stop_training)
        return {"whole": whole, "logs": logs, "metrics": None if whole else _sums(self.model)}

    def complete(self, logs):
        """Check the logs of a window, or of its part so far, and add to them."""
        check_window(self.model, self.first_step, self.losses, logs)
        named = readable_logs(logs, self.model)
        logs.clear()  # in place: the other callbacks get the same dict
        logs.update({"step": self.step, "total_steps": self.total_steps} | named | optimizer_logs(self.model.optimizer))
        if self.budget is not None:
            logs["learning_rate"] = self.rate_of_step  # the optimizer has that of the next step
            logs |= {"time_share": self.budget.share, "seconds_left": self.budget.seconds - self.budget.elapsed}
            del logs["total_steps"]
        logs.update(self._speed())
        if self.evaluation is not None:
            self.evaluation.merge(logs)
        if self.resumed is not None:
            before = self.resumed["logs"]
            logs["seconds"] += before["seconds"]
            for name in before.keys() - logs.keys():  # scores
                logs[name] = before[name]

    def _speed(self):
        # The first batch of a window is not counted if there are others: it may include tracing, and validation before
        # it.
        batches, seconds = self.batches - self.first_batches, self.end - self.first_end
        if batches == 0:
            batches, seconds = self.batches, self.end - self.start
        seconds = max(seconds, 1e-9)
        speed = {"seconds": self.end - self.start, "steps_per_second": batches / seconds}
        if self.tokens:
            speed["tokens_per_second"] = self.tokens * batches / seconds
            if self.real_share is not None:
                speed["real_tokens_per_second"] = self.real_share * speed["tokens_per_second"]
            if flops := batch_flops(self.model, self.dataset):
                speed["flops_per_second"] = flops * batches / seconds
        if self.real_tokens:
            speed["real_tokens_per_second"] = self.real_tokens * batches / seconds
        return speed


def _sums(model):
    """The values of the metrics' variables, a list for each; None with several replicas, which have parts of them."""
    strategy = strategy_of(model)
    if strategy is not None and strategy.num_replicas_in_sync > 1:
        return None
    values = [keras.ops.convert_to_numpy(variable).ravel() for variable in model.metrics_variables]
    return [[number if np.isfinite(number) else None for number in value.tolist()] for value in values]


def _set_sums(model, values):
    variables = model.metrics_variables
    if values is None or [math.prod(variable.shape) for variable in variables] != [len(value) for value in values]:
        return
    for variable, value in zip(variables, values, strict=True):
        variable.assign(np.reshape(np.array(value, "float64"), variable.shape).astype(variable.dtype))
