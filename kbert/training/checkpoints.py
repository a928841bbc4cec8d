"""The state of a training run on disk: written atomically, checked when read."""

import logging
import math
import os
import pathlib
import shutil
from typing import Any

import keras
import numpy as np

from kbert.checks import check_directory
from kbert.files import remove_partial, storable, write_directory, write_json
from kbert.keras_compat import strategy_scope
from kbert.training.logs import is_chief
from kbert.weights.step_checkpoint import ARRAYS, MANIFEST, VALUES, read_step_checkpoint
from kbert.weights.step_paths import CHECKPOINTS, checkpoint_name, checkpoint_paths, checkpoint_step

_LOGGER = logging.getLogger("kbert")


class Checkpoints:
    """The checkpoints of one run: weights, optimizer state, the state of dropout's random generators, the step.

    Each is a directory `step-00001200` with the values (TensorFlow's checkpoint format or, on the JAX backend, NumPy's
    .npz; both carry checksums) and a manifest of the variables. One that was damaged is reported and the previous one
    is used. Values are stored as plain tensors, in the order of `model.variables`, then the optimizer's: a run may
    resume with another number of replicas.
    """

    def __init__(self, directory: str | os.PathLike, model: keras.Model, keep: int = 2, keep_every: int | None = None):
        self.directory = pathlib.Path(directory)
        self.model = model
        self.keep = max(1, keep)
        self.keep_every = keep_every
        self.facts: dict = {}  # what was given to `save` of the checkpoint that was restored
        if not model.optimizer.built:  # not in the first step of `fit`: TensorFlow would trace the step twice
            with strategy_scope(model):
                model.optimizer.build(model.trainable_variables)

    def save(self, step: int, facts: dict | None = None, best: int | None = None) -> None:
        """Writes the state after `step` steps, and deletes all but the last `keep` checkpoints and those to be kept."""
        variables = self._variables()
        manifest = {"step": step, "variables": [_describe(variable) for variable in variables], "facts": facts or {}}

        def write(directory):
            _write_values(directory, variables)
            write_json(directory / MANIFEST, manifest)

        needed = sum(math.prod(variable.shape) * np.dtype(variable.dtype).itemsize for variable in variables)
        write_directory(self.directory / checkpoint_name(step), write, needed)  # what it replaces is damaged
        saved = checkpoint_paths(self.directory)
        done = [path for path in saved if checkpoint_step(path) <= step]  # those beyond it are damaged
        for old in done[: -self.keep]:
            if not is_milestone(checkpoint_step(old), self.keep_every) and checkpoint_step(old) != best:
                shutil.rmtree(old, ignore_errors=True)

    def restore(self) -> int:
        """Sets the model and its optimizer to the newest intact checkpoint; returns its step, or 0 if there is none."""
        if self.directory.is_dir() and is_chief(self.model):
            remove_partial(self.directory)
        for path in reversed(checkpoint_paths(self.directory)):
            try:
                manifest, values = read_step_checkpoint(path)
            except Exception as error:  # what a damaged file raises depends on where it is damaged
                reason = f"{type(error).__name__}: {str(error)[:200]}"
                _LOGGER.warning("Checkpoint %s is damaged (%s): trying the previous one.", path, reason)
                continue
            variables = self._variables()
            _check_same(path, manifest["variables"], [_describe(variable) for variable in variables])
            with strategy_scope(self.model):
                for variable, value in zip(variables, values, strict=True):
                    variable.assign(value)
            self.facts = manifest["facts"]
            return manifest["step"]
        return 0

    def steps(self) -> list[int]:
        """The steps of the checkpoints on disk, in order."""
        return [checkpoint_step(path) for path in checkpoint_paths(self.directory)]

    def _variables(self) -> list:
        return [*self.model.variables, *self.model.optimizer.variables]


def is_milestone(step: int, keep_every: int | None) -> bool:
    """Whether the checkpoint of a step is kept for good."""
    return bool(keep_every) and step % keep_every == 0


def _describe(variable) -> dict:
    return {"path": variable.path, "shape": list(variable.shape), "dtype": str(variable.dtype)}


def _write_values(directory: pathlib.Path, variables: list) -> None:
    if keras.backend.backend() != "tensorflow":
        np.savez(directory / ARRAYS, *[storable(variable.numpy()) for variable in variables])
        return
    import tensorflow as tf

    tf.train.Checkpoint(values=[variable.value for variable in variables]).write(str(directory / VALUES))


def _check_same(path: pathlib.Path, stored: list[dict], own: list[dict]) -> None:
    """Shapes and types in order; not paths, because Keras numbers layer names differently in each process."""
    help_line = "Continue with the settings the run was started with, or start another run in another directory."
    for old, new in zip(stored, own, strict=False):
        if (old["shape"], old["dtype"]) != (new["shape"], new["dtype"]):
            raise ValueError(
                f"Checkpoint {path} is of another model or optimizer. Expected {new['path']} {new['shape']} "
                f"{new['dtype']}. Received: {old['path']} {old['shape']} {old['dtype']}. {help_line}"
            )
    if len(stored) != len(own):
        raise ValueError(
            f"Checkpoint {path} is of another model or optimizer. Expected {len(own)} variables. "
            f"Received: {len(stored)}. {help_line}"
        )


class ExactResume(keras.callbacks.Callback):
    """Checkpoints at the end of each epoch of `model.fit`; the same program, started again, goes on from the last one.

    Weights, optimizer and the state of dropout are restored when it is made. Where batch n of the dataset depends only
    on n, a run that was killed and started again ends on a CPU with bit for bit the same weights. A callback reads as
    the rest of a Keras program does; `fit_steps` is the function for runs that need more: checkpoints on signals,
    phases, a time budget, evaluation on a dev set.

    Other data or other rates are not noticed: give them another directory. The recipes' commands compare their settings
    and the files that they read with those of the run (`kbert.cli.Command`, `reads`).

    Args:
        directory: receives ``checkpoints/``.
        model: compiled, built under its strategy's scope.
        steps_per_epoch: that of `fit`.
        keep: how many checkpoints are kept.

    Attributes:
        step: the number of updates so far: the dataset begins with this batch.
        epoch: `initial_epoch` of `fit`.

    Raises:
        NotADirectoryError: `directory` is a file.
        ValueError: the checkpoint is of another model, or in the middle of an epoch of `steps_per_epoch`.

    Example::

        resume = ExactResume("runs/tiny", model, steps_per_epoch=100)
        model.fit(
            pretraining_dataset("records", tokenizer, batch_size=32, start_step=resume.step),
            steps_per_epoch=100,
            epochs=50,
            initial_epoch=resume.epoch,
            callbacks=[resume],
        )
    """

    def __init__(self, directory: str | os.PathLike, model: keras.Model, steps_per_epoch: int, keep: int = 2):
        super().__init__()
        place = check_directory(directory, "ExactResume: `directory`")
        self.steps_per_epoch = steps_per_epoch
        self._checkpoints = Checkpoints(pathlib.Path(place) / CHECKPOINTS, model, keep)
        self.step = self._checkpoints.restore()
        self.epoch, rest = divmod(self.step, steps_per_epoch)
        if rest:
            raise ValueError(
                f"ExactResume: the checkpoint of step {self.step} in {place} is not at the end of an epoch. Expected "
                f"the `steps_per_epoch` of the run. Received: {steps_per_epoch}"
            )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.step = (epoch + 1) * self.steps_per_epoch
        if is_chief(self.model):
            self._checkpoints.save(self.step)
