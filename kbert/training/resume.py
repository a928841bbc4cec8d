"""Training in steps instead of epochs, with exact resume of killed runs."""

import logging
import pathlib

from kbert.corpus.reading_errors import reading_errors
from kbert.training.batch_memory import batch_shape, check_batch_memory, memory_errors
from kbert.training.checkpoints import Checkpoints
from kbert.training.history import History
from kbert.training.jax_devices import check_divides
from kbert.training.signals import DeferredSignals, Interrupted
from kbert.training.step_recorder import StepRecorder
from kbert.training.step_saver import StepSaver
from kbert.training.training_state import is_chief
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
    recorder = StepRecorder(step, total_steps, real_share, real_tokens, evaluation)
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
            saver = StepSaver(checkpoints, history, recorder, signals, checkpoint_every * window)
            while step < total_steps:
                windows, size = _next_fit(step, total_steps, window)
                dataset = make_dataset(start_step=step)
                _check_length(dataset, windows * size, step)
                recorder.begin(dataset, size)
                first = step // window
                last = step + windows * size == total_steps
                rows, length = batch_shape(dataset)
                check_divides(rows or 0)
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
