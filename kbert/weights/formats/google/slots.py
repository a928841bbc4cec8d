"""The optimizer's state in Google's checkpoints: `<variable>/adam_m`, `<variable>/adam_v` and `global_step`."""

import functools
from collections.abc import Callable

import numpy as np
from keras import ops

from kbert.checks import check_path
from kbert.keras_compat import adam_moments, base_optimizer
from kbert.optim.adamw import AdamW
from kbert.weights.formats.export_tensors import tensor_names
from kbert.weights.formats.google.names import NAMES
from kbert.weights.formats.google.read import GLOBAL_STEP, SLOTS, is_google_checkpoint, read_google_checkpoint
from kbert.weights.formats.variables import sizes_of


def has_slots(path, model) -> bool:
    """Whether a path is a checkpoint of Google's format that has all of the optimizer's values for a model."""
    return is_google_checkpoint(path) and not _missing(read_google_checkpoint(path).tensors, model)


def _missing(tensors, model):
    stored = tensor_names(NAMES, model)
    names = {f"{stored[v.path].name}/{slot}" for v in model.trainable_variables for slot in SLOTS} | {GLOBAL_STEP}
    return sorted(names - set(tensors.tensors))


def load_slots(optimizer, model, source, with_step: bool = True) -> int:
    """Loads the moments and the step of a checkpoint into an optimizer, so that training resumes.

    A learning rate schedule continues too, since it reads the step.

    Args:
        optimizer: `kbert.AdamW` (or Keras' LossScaleOptimizer around one), before its first step.
        model: the model that it trains, with the weights of that checkpoint.
        source: path of a checkpoint of Google's format.
        with_step: False loads the moments alone, and the schedule begins anew.

    Returns:
        int, the number of steps done.

    Raises:
        TypeError: `source` is not a path.
        ValueError: another optimizer, or a checkpoint without the slots of every trainable variable. Released
            checkpoints have none.

    Source: google-research/bert, optimization.py.

    Example::

        model = kbert.load_pretrained("pretraining_output/model.ckpt-20000")
        model.compile(kbert.AdamW(schedule), ...)
        load_slots(model.optimizer, model, "pretraining_output/model.ckpt-20000")
    """
    adamw = _adamw(optimizer)
    checkpoint = read_google_checkpoint(check_path(source, "load_slots: `source`"))
    tensors, stored = checkpoint.tensors, tensor_names(NAMES, model)
    variables = model.trainable_variables
    if missing := _missing(tensors, model):
        raise ValueError(
            f"{tensors.path} lacks {len(missing)} of the optimizer's values, such as {missing[0]}. A released "
            "checkpoint has none of them: start with load_pretrained alone."
        )
    optimizer.build(variables)
    for variable in variables:
        tensor = stored[variable.path]
        for slot, target in zip(SLOTS, adam_moments(adamw, variable), strict=True):
            values = tensors.read(f"{tensor.name}/{slot}")
            target.assign(tensor.to_kbert(values, variable.shape))
    step = int(tensors.read(GLOBAL_STEP))
    if with_step:
        optimizer.iterations.assign(step)
        adamw.iterations.assign(step)
    return step


def export_slots(optimizer, model) -> dict[str, Callable[[], np.ndarray]]:
    """The optimizer's state for the writer: name there → function that returns the values."""
    adamw = _adamw(optimizer)
    stored, sizes = tensor_names(NAMES, model), sizes_of(model.config, model.num_labels)
    values = {GLOBAL_STEP: lambda: np.int64(ops.convert_to_numpy(optimizer.iterations))}
    for variable in model.trainable_variables:
        tensor = stored[variable.path]
        for slot, moment in zip(SLOTS, adam_moments(adamw, variable), strict=True):
            values[f"{tensor.name}/{slot}"] = functools.partial(_exported, tensor, moment, sizes)
    return values


def _exported(tensor, moment, sizes):
    return tensor.from_kbert(ops.convert_to_numpy(moment), sizes)


def _adamw(optimizer):
    adamw = base_optimizer(optimizer)
    if not isinstance(adamw, AdamW):
        raise ValueError(f"Google's slots are those of kbert.AdamW. Received: {optimizer!r}")
    return adamw
