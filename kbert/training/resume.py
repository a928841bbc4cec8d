"""Training in steps instead of epochs, with exact resume of killed runs.

A run that is interrupted within a window, or in the validation at its end, has no record of it yet: the checkpoint has
the sums of the metrics so far, and the resumed run writes the record that an undisturbed one would have written.
"""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

import keras

from kbert.checks import check_directory
from kbert.errors import internal_errors, reading_errors
from kbert.keras_compat import base_optimizer, sync_state
from kbert.training.callbacks import callback_list
from kbert.training.dev_evaluation import DevEvaluation
from kbert.training.divergence import check_finite
from kbert.training.jax_devices import check_divides
from kbert.training.logs import is_chief, readable_logs
from kbert.training.memory import batch_shape, check_batch_memory, memory_errors
from kbert.training.run_state import RunState, Stage
from kbert.training.signals import DeferredSignals, Interrupted
from kbert.training.time_budget import TimeBudget
from kbert.training.workers import named_losses

_LOGGER = logging.getLogger("kbert")
_ENDLESS = 10**9  # windows, of a run that the clock ends
STAGE_ENDED = "stage ended"  # a `model.stop_training` that ends `fit`; True, from other callbacks, ends the run
_NOT_RECORDED = ("total_steps", "seconds_left", "flops_per_second")


def fit_steps(
    model: keras.Model,
    make_dataset: Callable,
    total_steps: int | None,
    output: str | os.PathLike | None = None,
    *,
    window: int = 100,
    callbacks: keras.callbacks.Callback | Sequence[keras.callbacks.Callback] = (),
    validation_data: Any = None,
    validation_steps: int | None = None,
    validation_every: int = 1,
    validate_first: bool = False,
    checkpoint_every: int = 1,
    keep: int = 2,
    keep_every: int | None = None,
    keep_best: bool = False,
    real_fraction: float | None = None,
    real_tokens: float | None = None,
    evaluation: DevEvaluation | None = None,
    stages: Sequence[Stage] | None = None,
    budget: TimeBudget | None = None,
) -> list[dict]:
    """Trains a compiled model for `total_steps` with `model.fit`, resuming from the last checkpoint in `output`.

    A step is an update of the weights, by one batch. A window of steps corresponds to an epoch of `fit`: it is the
    interval of logs and of callbacks' `on_epoch_end`; validation and checkpoints happen every one or more windows. A
    process that is killed and started again with the same arguments resumes from the last checkpoint with the next
    batch. On a CPU the final weights are bit for bit those of an uninterrupted run, provided batch n of `make_dataset`
    is a function of n.

    On SIGINT or SIGTERM the current step is finished, a checkpoint is saved and `Interrupted` is raised; a second
    signal ends the process at once. This works only in the main thread, and only if the program has no handler of its
    own.

    Args:
        model: compiled, built under its strategy's scope.
        make_dataset: function (start_step) -> `tf.data.Dataset` that begins with the batch of step `start_step` and
            lasts until `total_steps`. With `stages`, function (start_step, starts): the dataset lasts until the end
            of the stage, and `starts` are the first steps of the stages so far.
        total_steps: updates in the whole run; None with a `budget`.
        output: directory; receives `checkpoints/` and `history.jsonl`. None: nothing is written, and a killed process
            starts again from the beginning.
        window: steps.
        callbacks: Keras callbacks, or one; their logs also have "step" (of the whole run), "total_steps",
            "learning_rate", "gradient_norm", "seconds", and "tokens_per_second" and "flops_per_second" where the
            batches are dicts with `token_ids` of one shape, under the names of `readable_logs`.
        validation_data, validation_steps: as for `model.fit`.
        validation_every, checkpoint_every: in windows; the last window always ends with both, except that a run
            with a `budget`, whose last window is not known in advance, has no validation at its end.
        validate_first: whether to validate before the first step, too, on the data of the last stage, as a run ends;
            the history begins with these scores at step 0.
        keep: checkpoints to keep.
        keep_every: steps: checkpoints at its multiples are all kept; None: only the last `keep`.
        keep_best: whether the checkpoint with the lowest ``val_loss`` is kept, too.
        real_fraction: the fraction of tokens that are not padding, for "real_tokens_per_second".
        real_tokens: instead: how many tokens of a batch are not padding on average, if batches differ in length.
        evaluation: its scores are in the logs of the window in which they were measured, with "val_" before their
            names.
        stages: parts of the run with batches of different shapes; they have their own `validation_data` and
            `real_fraction`. The step is traced anew for each.
        budget: the run lasts for its time, and has its learning rates; the optimizer is compiled with a number as
            learning rate. For a single process.

    Returns:
        The logs of every window of the run, including those before it was resumed.

    Raises:
        TypeError: `callbacks` are none.
        ValueError: the checkpoint is of another model; the dataset ends too early; inconsistent numbers of steps; a
            batch that does not fit into memory; an optimizer with `gradient_accumulation_steps`.
        FloatingPointError: a loss, gradient or weight is no longer finite; the message names the step. The last
            checkpoint is from an earlier step.
        LostWorker: another worker of the run ended or cannot be reached.
        Interrupted: SIGINT or SIGTERM, a `KeyboardInterrupt`; with `output` a checkpoint of the last step was written.

    Example::

        def make_dataset(start_step):
            return pretraining_dataset("records", tokenizer, batch_size=32, start_step=start_step)

        history = fit_steps(model, make_dataset, 1000, "runs/tiny", callbacks=[ConsoleProgress()])
    """
    _check_arguments(model, total_steps, window, budget, validation_every, checkpoint_every)
    make = make_dataset if stages else lambda start_step, starts: make_dataset(start_step=start_step)
    stages = stages or [Stage(1.0, validation_data, real_fraction)]
    run = RunState(stages, total_steps, model.steps_per_execution, budget, real_tokens)
    callbacks = callback_list("fit_steps", callbacks, has_own_rate=budget is not None)
    if output is not None:
        output = check_directory(output, "fit_steps: `output`")
        output.mkdir(parents=True, exist_ok=True)
    unrecorded = run.open(model, output, keep, keep_every, keep_best)
    if evaluation is not None:
        evaluation.begin(run, writes=is_chief(model))
        callbacks = [evaluation, *callbacks]
    if run.is_over(run.step) and unrecorded is None:
        _LOGGER.info("%s: all %s steps are done (checkpoint of step %s).", output, total_steps or run.step, run.step)
        return run.history.records
    if run.step:
        where = f"of {total_steps}" if budget is None else f"at {budget.fraction:.1%} of the time"
        _LOGGER.info("%s: resuming from the checkpoint of step %s %s.", output, run.step, where)
    try:
        with named_losses(), DeferredSignals() as signals:
            begun = None
            if validate_first and not run.step:
                begun = run.stages[-1]
                _validate_first(model, begun.validation_data, validation_steps, run.history)
            if unrecorded is not None:  # a signal came between the last step of a window and its record
                begun = run.stage_at(run.step - 1)
                logs = unrecorded["logs"]
                if run.step % (window * validation_every) == 0 or run.step == run.stage_end(run.step - 1):
                    logs |= _validation(model, begun.validation_data, validation_steps)
                if is_chief(model):
                    run.history.append(logs)
            recorder = StepRecorder(run)
            saver = StepSaver(run, signals, checkpoint_every * window)
            while not (run.is_over(run.step) or (evaluation is not None and evaluation.is_stopped)):
                step = run.step
                stage = run.stage_at(step)
                if begun is not None and begun is not stage:  # else Keras would trace one step for both shapes
                    model.make_train_function(force=True)
                    model.make_test_function(force=True)
                begun = stage
                end = run.stage_end(step)
                windows, size = _next_fit(step, end, window)
                dataset = make(start_step=step, starts=run.begun(step))
                _check_length(dataset, windows * size, step)
                run.begin_fit(dataset, size)
                first = step // window
                rows, length = batch_shape(dataset)
                check_divides(rows or 0)
                check_batch_memory(model, rows or 1, length)
                with internal_errors(), memory_errors(rows, length), reading_errors():
                    model.fit(
                        dataset,
                        initial_epoch=first,
                        epochs=first + windows,
                        steps_per_epoch=size,
                        callbacks=[recorder, *callbacks, saver],
                        validation_data=stage.validation_data,
                        validation_steps=validation_steps,
                        validation_freq=_validated(step, windows, size, window, validation_every, end),
                        shuffle=False,  # Keras warns that it cannot
                        verbose=0,
                    )
                if model.stop_training not in (False, STAGE_ENDED):
                    break
    except KeyboardInterrupt as error:
        if run.checkpoints is None:
            raise  # nothing of this was saved; a program knows what else was
        report = _interruption_report(run.step, output, run.checkpoints)
        _LOGGER.warning("\n%s", report)
        if isinstance(error, Interrupted):
            raise Interrupted(error.number, report) from None
        raise
    return run.history.records


def _interruption_report(step: int, output, checkpoints) -> str:
    saved = [done for done in checkpoints.steps() if done <= step]  # those beyond it are damaged
    start = f"the checkpoint of step {saved[-1]} in {output}" if saved else "the start: no checkpoint was written yet"
    return f"Interrupted after step {step}. The same command resumes from {start}."


def _check_arguments(model, total_steps, window, budget, *intervals):
    if not getattr(model, "compiled", False) or model.optimizer is None:
        raise ValueError("fit_steps: expected a model compiled with an optimizer. Received: one that is not.")
    if budget is not None and keras.backend.backend() != "tensorflow":  # others keep the rate during a call of `fit`
        raise ValueError(f"fit_steps: a `budget` needs the TensorFlow backend. Received: {keras.backend.backend()!r}")
    if (total_steps is None) == (budget is None):
        raise ValueError(
            "fit_steps: expected either `total_steps` or a `budget`. "
            f"Received: total_steps={total_steps}, budget={budget}"
        )
    if min(window, *intervals) < 1 or (total_steps is not None and total_steps < 1):
        raise ValueError(
            "fit_steps: `total_steps`, `window`, `validation_every` and `checkpoint_every` must be at least 1. "
            f"Received: {total_steps}, {window}, {', '.join(map(str, intervals))}"
        )
    optimizer = base_optimizer(model.optimizer)
    if optimizer.gradient_accumulation_steps:
        raise ValueError(
            "fit_steps: a batch is a step; model.compile(micro_batches=...) divides it, for less memory. Received: an "
            f"optimizer with gradient_accumulation_steps={optimizer.gradient_accumulation_steps}"
        )
    execution = model.steps_per_execution
    if window % execution or (total_steps or 0) % execution:
        raise ValueError(
            "fit_steps: `window` and `total_steps` must be multiples of the model's steps_per_execution. "
            f"Received: window={window}, total_steps={total_steps}, steps_per_execution={execution}"
        )


def _next_fit(step: int, end: int | None, window: int) -> tuple[int, int]:
    """(number, size) of the windows in the next call of fit: part of one, all whole ones, or the remainder."""
    begun = step % window
    if end is None:  # by the clock
        return (1, window - begun) if begun else (_ENDLESS, window)
    if begun or end - step < window:
        return 1, min(window - begun, end - step)
    return (end - step) // window, window


def _validated(step: int, windows: int, size: int, window: int, every: int, end: int | None) -> int | list[int]:
    """The epochs of `fit`, counted from 1, after which to validate; by the clock their interval."""
    if end is None:
        return every
    first = step // window
    ends = {first + n: step + n * size for n in range(1, windows + 1)}
    return [epoch for epoch, last in ends.items() if last % (window * every) == 0 or last == end]


def _validate_first(model: keras.Model, data, steps: int | None, history) -> None:
    """Scores of the weights that the run starts from, as step 0 of the history."""
    scores = _validation(model, data, steps)
    shown = "  ".join(f"{name.removeprefix('val_')} {value:.4f}" for name, value in scores.items())
    _LOGGER.info("before the first step: %s", shown)
    if is_chief(model) and not history.records:  # a run that was killed before its first checkpoint has them already
        history.append({"step": 0} | scores)


def _validation(model: keras.Model, data, steps: int | None) -> dict:
    if data is None:
        return {}
    scores = readable_logs(model.evaluate(data, steps=steps, return_dict=True, verbose=0), model)
    return {f"val_{name}": value for name, value in scores.items()}


def _check_length(dataset, steps: int, step: int) -> None:
    cardinality = int(dataset.cardinality())
    if 0 <= cardinality < steps:
        raise ValueError(
            f"fit_steps: expected a dataset of at least {steps} batches from step {step} on; `.repeat()` it. "
            f"Received: {cardinality}"
        )


class StepRecorder(keras.callbacks.Callback):
    """The first callback: counts steps, measures time, and completes the logs for the others."""

    def __init__(self, run: RunState):
        super().__init__()
        self.run = run

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        if self.run.budget is not None:
            self.run.budget.begin()
            self._set_rate()

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.run.begin_window(self.model)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
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

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        run = self.run
        if run.window.batches < run.size and not self.model.stop_training:
            raise ValueError(
                f"fit_steps: expected a dataset that lasts until step {run.total_steps}; `.repeat()` it. "
                f"Received: one that ended after step {run.step}"
            )
        run.complete(self.model, logs)


class StepSaver(keras.callbacks.Callback):
    """The last callback: history, then checkpoint, so that none lacks its history; then ends a run if asked to."""

    def __init__(self, run: RunState, signals: DeferredSignals, interval: int):
        super().__init__()
        self.run = run
        self.signals = signals
        self.interval = interval
        self.saved = run.step

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.signals.deferring = self.run.checkpoints is not None
        self._save_if_interrupted()

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._save_if_interrupted()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        run = self.run
        step = logs["step"]
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


def _recorded(logs: dict) -> dict:
    return {name: value for name, value in logs.items() if name not in _NOT_RECORDED}
