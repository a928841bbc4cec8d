"""The state of a training run on disk: written atomically, checked when read."""

import logging
import math
import os
import pathlib
import shutil

import keras
import numpy as np

from kbert.files import explain_full_disk, flush, flush_tree, read_json, write_json
from kbert.keras_compat import strategy_scope

_LOGGER = logging.getLogger("kbert")
_MANIFEST, _VALUES, _ARRAYS = "manifest.json", "values", "values.npz"


class Checkpoints:
    """The checkpoints of one run: weights, optimizer state, the state of dropout's random generators, the step.

    Each is a directory `step-00001200` with the values (TensorFlow's checkpoint format or, on the JAX backend, NumPy's
    .npz; both carry checksums) and a manifest of the variables. It is written under a temporary name, flushed and
    renamed, so that a run killed at any moment leaves only complete checkpoints. One that was damaged later is reported
    and the previous one is used.

    Values are stored as plain tensors, in the order of `model.variables`, then the optimizer's: a run may resume with
    another number of replicas.

    Args:
        directory: path.
        model: a compiled `keras.Model`.
        keep: int, how many to keep.

    Raises:
        ValueError: on `restore`, the variables there are not this model's.

    Example::

        checkpoints = Checkpoints("runs/tiny/checkpoints", model)
        step = checkpoints.restore()  # 0 at the start
        checkpoints.save(step + 100)
    """

    def __init__(self, directory, model, keep=2):
        self.directory = pathlib.Path(directory)
        self.model = model
        self.keep = max(1, keep)
        if not model.optimizer.built:  # not in the first step of `fit`: TensorFlow would trace the step twice
            with strategy_scope(model):
                model.optimizer.build(model.trainable_variables)

    def save(self, step):
        """Write the state after `step` steps, and delete all but the last `keep` checkpoints."""
        part, final = self.directory / f".{_name(step)}.part", self.directory / _name(step)
        shutil.rmtree(part, ignore_errors=True)
        variables = self._variables()
        needed = sum(math.prod(variable.shape) * np.dtype(variable.dtype).itemsize for variable in variables)
        with explain_full_disk(final, needed):
            try:
                part.mkdir(parents=True)
                _write_values(part, variables)
                manifest = {"step": step, "variables": [_describe(variable) for variable in variables]}
                write_json(part / _MANIFEST, manifest)
                flush_tree(part)
                if final.exists():  # damaged, else this step would not have been run again
                    shutil.rmtree(final)
                os.rename(part, final)
                flush(self.directory)
            finally:
                shutil.rmtree(part, ignore_errors=True)
        done = [path for path in self._saved() if checkpoint_step(path) <= step]  # those beyond it are damaged
        for old in done[: -self.keep]:
            shutil.rmtree(old, ignore_errors=True)

    def restore(self) -> int:
        """Set the model and its optimizer to the newest intact checkpoint; returns its step, or 0 if there is none."""
        if self.directory.is_dir():
            for part in self.directory.glob(".*.part"):
                shutil.rmtree(part, ignore_errors=True)
        for path in reversed(self._saved()):
            try:
                manifest, values = _read(path)
            except Exception as error:  # what a damaged file raises depends on where it is damaged
                reason = f"{type(error).__name__}: {str(error)[:200]}"
                _LOGGER.warning("Checkpoint %s is damaged (%s): trying the previous one.", path, reason)
                continue
            variables = self._variables()
            _check_same(path, manifest["variables"], [_describe(variable) for variable in variables])
            with strategy_scope(self.model):
                for variable, value in zip(variables, values, strict=True):
                    variable.assign(value)
            return manifest["step"]
        return 0

    def steps(self) -> list[int]:
        """The steps of the checkpoints on disk, in order."""
        return [checkpoint_step(path) for path in self._saved()]

    def _saved(self):
        return checkpoint_paths(self.directory)

    def _variables(self):
        return [*self.model.variables, *self.model.optimizer.variables]


def checkpoint_paths(directory) -> list[pathlib.Path]:
    """The checkpoints in a directory, oldest first; none if there is no directory."""
    return sorted(pathlib.Path(directory).glob("step-" + "[0-9]" * 10))


def checkpoint_step(path) -> int:
    """The step of a checkpoint, which is its name."""
    return int(pathlib.Path(path).name.removeprefix("step-"))


def _name(step):
    return f"step-{step:010d}"


def _describe(variable):
    return {"path": variable.path, "shape": list(variable.shape), "dtype": str(variable.dtype)}


def _write_values(directory, variables):
    if keras.backend.backend() != "tensorflow":
        np.savez(directory / _ARRAYS, *[variable.numpy() for variable in variables])
        return
    import tensorflow as tf

    tf.train.Checkpoint(values=[variable.value for variable in variables]).write(str(directory / _VALUES))


def _read_values(directory, count):
    if (directory / _ARRAYS).exists():
        with np.load(directory / _ARRAYS) as arrays:
            return [arrays[f"arr_{i}"] for i in range(count)]
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(directory / _VALUES))
    return [reader.get_tensor(f"values/{i}/.ATTRIBUTES/VARIABLE_VALUE") for i in range(count)]


def _read(path):
    manifest = read_json(path / _MANIFEST)
    values = _read_values(path, len(manifest["variables"]))
    found = [(list(value.shape), value.dtype.name) for value in values]
    if manifest["step"] != checkpoint_step(path) or found != [(v["shape"], v["dtype"]) for v in manifest["variables"]]:
        raise ValueError(f"{_MANIFEST} tells of another step, or of other values")
    return manifest, values


def _check_same(path, there, here):
    """Shapes and types in order; not paths, because Keras numbers layer names differently in each process."""
    help_line = "Continue with the settings the run was started with, or start another run in another directory."
    for old, new in zip(there, here, strict=False):
        if (old["shape"], old["dtype"]) != (new["shape"], new["dtype"]):
            raise ValueError(
                f"Checkpoint {path} is of another model or optimizer. Expected {new['path']} {new['shape']} "
                f"{new['dtype']}. Received: {old['path']} {old['shape']} {old['dtype']}. {help_line}"
            )
    if len(there) != len(here):
        raise ValueError(
            f"Checkpoint {path} is of another model or optimizer. Expected {len(here)} variables. "
            f"Received: {len(there)}. {help_line}"
        )
