"""Training in steps instead of epochs, with exact resume of killed runs."""

import logging
import math
import pathlib
import time

import keras

from kbert.corpus.reading_errors import reading_errors
from kbert.keras_compat import learning_rate_of
from kbert.training.batch_memory import batch_shape, check_batch_memory, memory_errors
from kbert.training.checkpoints import Checkpoints
from kbert.training.divergence import check_finite, check_window
from kbert.training.history import History
from kbert.training.log_names import readable_logs
from kbert.training.signals import DeferredSignals, Interrupted
from kbert.training.workers import named_losses

_LOGGER = logging.getLogger("kbert")


def fit_steps(
    model,
    make_dataset,
    total_steps,
    output=None,
    *,
    window=100,
    callbacks=(),
    validation_data=None,
    validation_steps=None,
    validation_every=1,
    checkpoint_every=1,
    keep=2,
    real_share=None,
    real_tokens=None,
    evaluation=None,
):
    """Train a compiled model for `total_steps` by `model.fit`, resuming from the last checkpoint in `output`.

    A window of steps corresponds to an epoch of `fit`: it is the interval of logs and of callbacks' `on_epoch_end`;
    validation and checkpoints happen every one or more windows. A process that is killed and started again with the
    same arguments resumes from the last checkpoint with the next batch. On a CPU the final weights are bit for bit
    those of an uninterrupted run, provided batch n of `make_dataset` is a function of n.

    On SIGINT or SIGTERM the current step is finished, a checkpoint is saved and `Interrupted` is raised; a second
    signal ends the process at once. This works only in the main thread, and only if the program has no handler of its
    own.

    Args:
        model: compiled `keras.Model`, built under its strategy's scope.
        make_dataset: function (start_step) -> `tf.data.Dataset` that begins with batch number `start_step` and lasts
            until `total_steps`.
        total_steps: int, batches in the whole run.
        output: directory; receives `checkpoints/` and `history.jsonl`. None: nothing is written, and a killed process
            starts again from the beginning.
        window: int, steps.
        callbacks: Keras callbacks; their logs also have "step" (of the whole run), "total_steps", "learning_rate",
            "gradient_norm", "seconds", and "tokens_per_second" where the batches are dicts with `token_ids`, under the
            names of `readable_logs`.
        validation_data, validation_steps: as for `model.fit`.
        validation_every, checkpoint_every: ints, in windows; the last window always has both.
        keep: int, checkpoints to keep.
        real_share: float, the share of tokens that are not padding, for "real_tokens_per_second".
        real_tokens: float, instead: how many tokens of a batch are not padding on average, if batches differ in length.
        evaluation: `kbert.training.dev_evaluation.DevEvaluation`, or None; its scores are in the logs of the window in
            which they were measured, with "val_" before their names.

    Returns:
        list of dicts: the logs of every window of the run, including those before it was resumed.

    Raises:
        ValueError: the checkpoint is of another model; the dataset ends too early; inconsistent numbers of steps; a
            batch that does not fit into memory.
        FloatingPointError: a loss, gradient or weight is no longer finite; the message names the step, and the last
            checkpoint is from before it.
        LostWorker: another worker of the run ended or cannot be reached.
        Interrupted: SIGINT or SIGTERM, a `KeyboardInterrupt`; a checkpoint of the last step was written.

    Example::

        def make_dataset(start_step):
            return pretraining_dataset("records", tokenizer, batch_size=32, start_step=start_step)

        history = fit_steps(model, make_dataset, 1000, "runs/tiny", callbacks=[ConsoleProgress()])
    """
    _check_arguments(model, total_steps, window, validation_every, checkpoint_every)
    checkpoints, step, history = None, 0, History(None)
    if output is not None:
        output = pathlib.Path(output)
        output.mkdir(parents=True, exist_ok=True)
        checkpoints = Checkpoints(output / "checkpoints", model, keep)
        step = checkpoints.restore()
        history = History(output / "history.jsonl", step, writes=is_chief(model))
    recorder = _Recorder(step, total_steps, real_share, real_tokens, evaluation)
    if evaluation is not None:
        evaluation.begin(model, step, checkpoints, recorder, writes=is_chief(model))
        callbacks = [evaluation, *callbacks]
    if step >= total_steps:
        _LOGGER.info("%s: all %s steps are done (checkpoint of step %s).", output, total_steps, step)
        return history.records
    if step:
        _LOGGER.info("%s: resuming from the checkpoint of step %s of %s.", output, step, total_steps)
    if evaluation is not None and evaluation.is_stopped:
        return history.records
    try:
        with named_losses(), DeferredSignals() as signals:
            saver = _Saver(checkpoints, history, recorder, signals, checkpoint_every * window)
            while step < total_steps:
                windows, size = _next_fit(step, total_steps, window)
                dataset = make_dataset(start_step=step)
                _check_length(dataset, windows * size, step)
                recorder.begin(dataset, size)
                first = step // window
                last = step + windows * size == total_steps
                rows, length = batch_shape(dataset)
                check_batch_memory(model, rows or 1, length)
                with memory_errors(rows, length), reading_errors():
                    model.fit(
                        dataset,
                        initial_epoch=first,
                        epochs=first + windows,
                        steps_per_epoch=size,
                        callbacks=[recorder, *callbacks, saver],
                        validation_data=validation_data,
                        validation_steps=validation_steps,
                        validation_freq=_validated(first, windows, validation_every, last),
                        shuffle=False,  # Keras warns that it cannot
                        verbose=0,
                    )
                step = recorder.step
                if model.stop_training:
                    break
    except KeyboardInterrupt as error:
        report = _interruption_report(recorder.step, output, checkpoints)
        _LOGGER.warning("\n%s", report)
        if isinstance(error, Interrupted):
            raise Interrupted(error.number, report) from None
        raise
    return history.records


def _interruption_report(step, output, checkpoints):
    if checkpoints is None:
        return f"Interrupted after step {step}. Nothing was saved, as there is no output directory."
    saved = [done for done in checkpoints.steps() if done <= step]  # those beyond it are damaged
    start = f"the checkpoint of step {saved[-1]} in {output}" if saved else "the start: no checkpoint was written yet"
    return f"Interrupted after step {step}. The same command resumes from {start}."


def _check_arguments(model, total_steps, window, *intervals):
    if not getattr(model, "compiled", False) or model.optimizer is None:
        raise ValueError("fit_steps: expected a model compiled with an optimizer. Received: one that is not.")
    if min(total_steps, window, *intervals) < 1:
        raise ValueError(
            "fit_steps: `total_steps`, `window`, `validation_every` and `checkpoint_every` must be at least 1. "
            f"Received: {total_steps}, {window}, {', '.join(map(str, intervals))}"
        )
    execution = model.steps_per_execution
    if window % execution or total_steps % execution:
        raise ValueError(
            "fit_steps: `window` and `total_steps` must be multiples of the model's steps_per_execution. "
            f"Received: window={window}, total_steps={total_steps}, steps_per_execution={execution}"
        )


def _next_fit(step, total_steps, window):
    """(number, size) of the windows in the next call of fit: part of one, all whole ones, or the remainder."""
    remaining, begun = total_steps - step, step % window
    if begun or remaining < window:
        return 1, min(window - begun, remaining)
    return remaining // window, window


def _validated(first, windows, every, last):
    """The epochs of `fit`, counted from 1, after which to validate."""
    epochs = range(first + 1, first + windows + 1)
    return [epoch for epoch in epochs if epoch % every == 0 or (last and epoch == epochs[-1])]


def _check_length(dataset, steps, step):
    cardinality = int(dataset.cardinality())
    if 0 <= cardinality < steps:
        raise ValueError(
            f"fit_steps: expected a dataset of at least {steps} batches from step {step} on; `.repeat()` it. "
            f"Received: {cardinality}"
        )


class _Recorder(keras.callbacks.Callback):
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


class _Saver(keras.callbacks.Callback):
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
            logs = {name: float(value) for name, value in self.recorder.last_logs.items()}
            self.recorder.complete(logs)
            check_finite(self.model, self.recorder.first_step, self.recorder.step)
            self._record(logs)
            self._save()

    def _record(self, logs):
        if is_chief(self.model):
            self.history.append({name: value for name, value in logs.items() if name != "total_steps"})

    def _save(self):
        self.saved = self.recorder.step
        if self.checkpoints is not None and is_chief(self.model):
            self.checkpoints.save(self.saved)
        self.signals.deferring = False
        self.signals.check()


def optimizer_logs(optimizer) -> dict:
    """The learning rate of the last update, and its gradient norm if the optimizer keeps it."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    rate = learning_rate_of(optimizer)
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        rate = rate(max(int(optimizer.iterations.numpy()) - 1, 0))
    logs = {"learning_rate": float(rate.numpy() if isinstance(rate, keras.Variable) else rate)}
    if hasattr(optimizer, "gradient_norm"):
        logs["gradient_norm"] = float(optimizer.gradient_norm.numpy())
    return logs


def is_chief(model) -> bool:
    """Whether this process writes the shared files of a run; True for a single process."""
    strategy = getattr(model, "distribute_strategy", None)  # on the TensorFlow backend only
    return strategy is None or strategy.extended.should_checkpoint


def _tokens_per_batch(dataset):
    """B * S, or 0 if unknown."""
    spec = dataset.element_spec
    inputs = spec[0] if isinstance(spec, tuple) else spec
    shape = inputs["token_ids"].shape if isinstance(inputs, dict) and "token_ids" in inputs else None
    return math.prod(shape) if shape is not None and shape.is_fully_defined() else 0
