"""Divergence: infinite or NaN losses, gradients and weights end a run with an error that names the step."""

import keras
import numpy as np

from kbert.keras_compat import Tensor, base_optimizer
from kbert.optim.adamw import AdamW
from kbert.training.logs import updates_done

_ADVICE = "A lower learning rate, a longer warm-up, clipping or float32 may help; the checkpoints are from before."


def check_window(model: keras.Model, start: int, end: int, logs: dict) -> None:
    """Raises unless the gradients of a window of steps, and the logs of its end, were finite.

    `AdamW` tells the step of the first bad gradient; with another optimizer the message names the steps of the window.
    """
    optimizer = base_optimizer(model.optimizer)
    if isinstance(optimizer, AdamW) and (first := int(optimizer.first_non_finite.numpy())):
        step = end - (updates_done(optimizer) - first)
        raise FloatingPointError(_message("a finite gradient. Received: one whose norm is infinite or NaN", step, step))
    if bad := {name: value for name, value in logs.items() if not np.all(np.isfinite(value))}:
        raise FloatingPointError(_message(f"finite numbers in the logs. Received: {bad}", start + 1, end))
    scale = getattr(model.optimizer, "dynamic_scale", None)
    if scale is not None and float(scale.numpy()) < 1.0:
        expected = f"gradients that are finite under some loss scale. Received: a loss scale of {float(scale.numpy())}"
        raise FloatingPointError(_message(expected, start + 1, end))


def check_finite(model: keras.Model, start: int, end: int) -> None:
    """Raises unless every weight and every variable of the optimizer is finite."""
    for variable in (*model.variables, *model.optimizer.variables):
        if keras.backend.is_float_dtype(variable.dtype) and not is_finite(variable):
            expected = f"finite weights. Received: infinite or NaN values in {variable.path}"
            raise FloatingPointError(_message(expected, start + 1, end))


def is_finite(variable: Tensor) -> bool:
    """Whether all numbers of a variable or array are finite."""
    value = keras.ops.convert_to_tensor(variable)
    return bool(keras.ops.all(keras.ops.isfinite(value)))


def _message(expected: str, first: int, last: int) -> str:
    steps = f"step {last}" if first >= last else f"steps {first} to {last}"
    return f"Training diverged in {steps}: expected {expected}. {_ADVICE}"
