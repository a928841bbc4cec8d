"""The state of a training run on disk, and the callback that stores and restores it."""

import atexit
import itertools
import logging
import math
import os
import pathlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from kbert.checks import check_directory
from kbert.files import remove_partial, write_directory, write_json
from kbert.keras_compat import strategy_scope, sync_state
from kbert.locks import unlock_directory
from kbert.training.divergence import check_finite
from kbert.training.hardware import Hardware
from kbert.training.logs import is_chief, trained_model
from kbert.training.loop import check_compiled, rounded_up
from kbert.training.run_directory import open_run
from kbert.training.signals import DeferredSignals, Interrupted, give_back_signals
from kbert.weights.step_checkpoint import ARRAYS, MANIFEST, VALUES, read_step_checkpoint
from kbert.weights.step_paths import CHECKPOINTS, checkpoint_name, checkpoint_paths, checkpoint_step, is_milestone

_LOGGER = logging.getLogger("kbert")
STATES = "callbacks.npz"  # arrays of the states of callbacks
_KEPT = 2  # checkpoints: the last, and one in case it is damaged


def save_checkpoint(directory: pathlib.Path, model: keras.Model, step: int, states: Sequence[dict] = ()) -> None:
    """Writes the state of a training after `step` steps: weights, optimizer, dropout's random generators, callbacks.

    It is a directory `step-0000001200` with the values (TensorFlow's checkpoint format or, on the JAX backend, NumPy's
    .npz; both carry checksums) and a manifest of the variables. Values are stored as plain tensors, in the order of
    `model.variables`, then the optimizer's: a run may resume with another number of replicas.

    Args:
        directory: receives the checkpoint.
        model: compiled, with a built optimizer.
        step: updates done.
        states: what callbacks have for `get_state()`: dicts of what JSON can hold, and of lists of arrays.
    """
    variables = [*model.variables, *model.optimizer.variables]
    arrays = {}
    facts = []
    for number, state in enumerate(states):
        facts.append(dict(state))
        for name, value in state.items():
            if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
                facts[-1][name] = len(value)
                arrays |= {f"{number}/{name}/{i}": _storable(array) for i, array in enumerate(value)}
    described = [_describe(variable) for variable in variables]
    manifest = {"step": step, "variables": described, "facts": {"callbacks": facts}}

    def write(directory):
        _write_values(directory, variables)
        if arrays:
            np.savez(directory / STATES, **arrays)
        write_json(directory / MANIFEST, manifest)

    needed = sum(math.prod(variable.shape) * np.dtype(variable.dtype).itemsize for variable in variables)
    needed += sum(array.nbytes for array in arrays.values())
    write_directory(directory / checkpoint_name(step), write, needed)  # what it replaces is damaged


def restore_checkpoint(directory: pathlib.Path, model: keras.Model) -> tuple[int, list[dict]]:
    """Sets a model and its optimizer to the newest intact checkpoint. A damaged one is reported.

    Returns:
        (its step, the `states` that were saved with it); (0, []) if there is none.
    """
    if directory.is_dir() and is_chief(model):
        remove_partial(directory)
    with strategy_scope(model):
        if not model.optimizer.built:  # not in the first step of `fit`: TensorFlow would trace the step twice
            model.optimizer.build(model.trainable_variables)
    for path in reversed(checkpoint_paths(directory)):
        try:
            manifest, values = read_step_checkpoint(path)
            arrays = _read_arrays(path / STATES)
        except Exception as error:  # what a damaged file raises depends on where it is damaged
            reason = f"{type(error).__name__}: {str(error)[:200]}"
            _LOGGER.warning("Checkpoint %s is damaged (%s): trying the previous one.", path, reason)
            continue
        variables = [*model.variables, *model.optimizer.variables]
        _check_same(path, manifest["variables"], [_describe(variable) for variable in variables])
        model.provenance = None  # the weights change
        with strategy_scope(model):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)
        states = manifest["facts"]["callbacks"]
        for number, state in enumerate(states):
            for name in [name for name in state if f"{number}/{name}/0" in arrays]:
                state[name] = [arrays[f"{number}/{name}/{i}"] for i in range(state[name])]
        return manifest["step"], states
    return 0, []


def _describe(variable) -> dict:
    return {"path": variable.path, "shape": list(variable.shape), "dtype": str(variable.dtype)}


def _storable(values: np.ndarray) -> np.ndarray:
    """Values as NumPy's files can hold them: bfloat16 in float32, which is exact."""
    return values.astype("float32") if values.dtype.name == "bfloat16" else values


def _write_values(directory: pathlib.Path, variables: list) -> None:
    if keras.backend.backend() != "tensorflow":
        np.savez(directory / ARRAYS, *[_storable(variable.numpy()) for variable in variables])
        return
    import tensorflow as tf

    tf.train.Checkpoint(values=[variable.value for variable in variables]).write(str(directory / VALUES))


def _read_arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as file:  # zip archives carry checksums
        return {name: file[name] for name in file.files}


def _check_same(path: pathlib.Path, stored: list[dict], own: list[dict]) -> None:
    """Shapes and types in order; not paths, because Keras numbers layer names differently in each process."""
    for old, new in itertools.zip_longest(stored, own):
        if not (old and new) or (old["shape"], old["dtype"]) != (new["shape"], new["dtype"]):
            expected, received = (
                f"{each['path']} {each['shape']} {each['dtype']}" if each else "no more variables"
                for each in (new, old)
            )
            raise ValueError(
                f"Checkpoint {path} is of another model or optimizer. Expected {expected}. Received: {received}. "
                "Continue with the settings the run was started with, or start another run in another directory."
            )


class ExactResume(keras.callbacks.Callback):
    """Checkpoints of a training; the same program, started again, goes on from the last one.

    Weights, optimizer, the state of dropout and that of other callbacks are restored when it is made. Where batch n of
    the dataset depends only on n, a run that was killed and started again ends on a CPU with bit for bit the same
    weights and scores.

    It saves every `every` steps, in `train` and in a plain `model.fit`, where it must be the last callback. If `fit`
    resumes in the middle of an epoch, it first trains the remaining steps of this epoch.

    On SIGINT or SIGTERM the current step is finished and saved, and `Interrupted` is raised; a second signal ends the
    process at once. This works after the first step, only in the main thread, and only if the program has no handler of
    its own.

    With `settings`, the rule for outputs applies (`open_run`): other settings or changed inputs raise an error, and so
    does another process that writes to the directory. Without, other data or learning rates are not noticed.

    Args:
        output: path of a directory, receives ``checkpoints/``.
        model: compiled, built under its strategy's scope; or a pipeline.
        steps_per_epoch: `steps_per_epoch` of the `fit` call. Leave it out for `train`.
        every: steps between two checkpoints; None: at the end of each epoch.
        keep_every: steps: checkpoints at its multiples are all kept; None: only the last two.
        keep_step: function that returns a step whose checkpoint is kept, too, or None.
        callbacks: the other callbacks. Those with the methods `get_state()` and `set_state(state)`, such as
            `DevScoring`, have their state stored with each checkpoint and restored: a dict of what JSON can hold, and
            of lists of arrays. Keras' own callbacks have neither, and start anew.
        settings: all that decides the result, such as ``record(main, locals())``; ``output`` in it does not count.
        inputs: argument → path or paths of the files and models that are read.
        hardware: `Hardware` of a run that several workers may share.

    Attributes:
        step: the number of updates so far: the dataset begins with this batch.

    Raises:
        NotADirectoryError: `output` is a file.
        ValueError: the checkpoint is of another model, or has states of more or fewer callbacks; inputs that have
            changed; a `steps_per_epoch` other than that of `fit`, or with `train`.
        FileExistsError: with `settings`, a run with other settings, or other files.
        BlockingIOError: with `settings`, another process has locked the directory.
        FloatingPointError: a weight is not finite; nothing is saved.

    Example::

        resume = ExactResume("runs/tiny", model, steps_per_epoch=100, every=20)
        model.fit(
            pretraining_dataset("records", tokenizer, batch_size=32, start_step=resume.step),
            steps_per_epoch=100,
            epochs=50,
            initial_epoch=resume.epoch,
            callbacks=[resume],
        )
    """

    def __init__(
        self,
        output: str | os.PathLike,
        model: keras.Model,
        steps_per_epoch: int | None = None,
        *,
        every: int | None = None,
        keep_every: int | None = None,
        keep_step: Callable[[], int | None] | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        settings: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        hardware: Hardware | None = None,
    ):
        super().__init__()
        self.output = check_directory(output, "ExactResume: `output`")
        self.trained = model = trained_model(model)
        check_compiled("ExactResume", model)
        if settings is not None:
            settings = {name: value for name, value in settings.items() if name != "output"}
            open_run(self.output, settings, None, hardware, inputs=inputs)
            atexit.register(unlock_directory, self.output)
        self.steps_per_epoch = None if steps_per_epoch is None else rounded_up(steps_per_epoch, model)  # as Keras does
        self.every = None if every is None else rounded_up(every, model)
        self.keep_every = None if keep_every is None else rounded_up(keep_every, model)
        self.keep_step = keep_step
        self.callbacks = [each for each in callbacks if hasattr(each, "get_state") and hasattr(each, "set_state")]
        self.signals = DeferredSignals()
        self.step, states = restore_checkpoint(self.output / CHECKPOINTS, model)
        self.saved = self.step
        if self.step:
            _LOGGER.info("%s: resuming from the checkpoint of step %s.", self.output, self.step)
            if len(states) != len(self.callbacks):
                raise ValueError(
                    f"ExactResume: the checkpoint of step {self.step} in {self.output} has the states of {len(states)} "
                    f"callbacks. Received: {len(self.callbacks)} with `get_state` and `set_state`. Pass the same "
                    "callbacks as before, in the same order."
                )
            for callback, state in zip(self.callbacks, states, strict=True):
                callback.set_state(state)

    @property
    def epoch(self) -> int:
        """The epoch of the next step: `initial_epoch` for the next call of `fit`."""
        return self.step // (self.steps_per_epoch or 1)

    def closes(self, step: int) -> bool:
        """Whether a checkpoint is due after this step: of an interval, or for a signal."""
        intervals = (self.every, self.keep_every)
        is_due = any(step // every > self.saved // every for every in intervals if every is not None)
        return is_due or self.is_interrupted

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal waits for the checkpoint."""
        return self.signals.received is not None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        give_back_signals()  # of a training that an error has ended, perhaps with this callback
        self.signals.received = None
        if "total_steps" in self.params:  # in `train`
            if self.steps_per_epoch is not None:
                raise ValueError(
                    "ExactResume: `steps_per_epoch` is for `fit`; leave it out for `train`. "
                    f"Received: {self.steps_per_epoch}"
                )
            return
        steps = self.params["steps"]
        if steps is None or rounded_up(steps, self.trained) != self.steps_per_epoch:
            raise ValueError(
                "ExactResume: `steps_per_epoch` must be that of `fit`. "
                f"Received: {self.steps_per_epoch}, and {steps} in `fit`"
            )

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._first, self._is_due = self.step, False

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._is_due:  # not at the end of a batch, which may be that of an epoch, with scores to save
            self._save()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.step = self._first + batch + 1
        self.signals.take()  # not before: until the end of the first step there is nothing to save
        self._is_due = self.closes(self.step)
        is_last = self.steps_per_epoch and self.step % self.steps_per_epoch == 0
        if is_last and batch + 1 < self.steps_per_epoch and not self.model.stop_training:
            self.model.stop_training = self  # ends the epoch, in whose middle the run was resumed, and not the training

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self.model.stop_training is self:  # not True, which another callback sets
            self.model.stop_training = False
        if self.every is None or self.closes(self.step):
            self._save()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self.saved != self.step:
            self._save()
        self._give_signals_back()

    def _save(self):
        sync_state(self.trained)
        check_finite(self.trained, self.saved, self.step)
        if is_chief(self.trained):
            directory = self.output / CHECKPOINTS
            save_checkpoint(directory, self.trained, self.step, [callback.get_state() for callback in self.callbacks])
            best = None if self.keep_step is None else self.keep_step()
            done = [path for path in checkpoint_paths(directory) if checkpoint_step(path) <= self.step]
            for old in done[:-_KEPT]:  # those beyond this step are damaged
                if not is_milestone(checkpoint_step(old), self.keep_every) and checkpoint_step(old) != best:
                    shutil.rmtree(old, ignore_errors=True)
        self.saved, self._is_due = self.step, False
        if self.is_interrupted:
            self._give_signals_back()

    def _give_signals_back(self):
        self.signals.give_back()
        if self.is_interrupted:
            number, self.signals.received = self.signals.received, None
            saved = f"the checkpoint of step {self.saved} in {self.output}"
            report = f"Interrupted after step {self.step}. The same command resumes from {saved}."
            _LOGGER.warning("\n%s", report)
            raise Interrupted(number, report)
