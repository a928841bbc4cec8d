"""Norms of gradients, weights and updates by layer."""

import math
import re

import numpy as np
from keras import ops

from kbert.keras_compat import base_optimizer
from kbert.optim.adamw import sum_of_squares

_BLOCK = re.compile(r"(?:^|/)(encoder_block_\d+)/")


def layer_of(path: str) -> str:
    """The layer that a variable belongs to, for grouping: a block of the encoder, or the first part of its path.

    Example::

        layer_of("encoder_block_1/attention/query/kernel"), layer_of("pooler/dense/bias")  # "encoder_block_1", "pooler"
    """
    found = _BLOCK.search(path)
    return found[1] if found else path.split("/")[0]


def layer_norms(model, learning_rate) -> dict[str, dict[str, float]]:
    """Norms over the trainable weights of each layer.

    Returns:
        dict of ``weight`` and, where the optimizer keeps them (`kbert.AdamW` and `Lamb`), ``gradient``, of the last
        update before clipping, and ``update_ratio``, the last update's norm over that of the weights: each a dict of
        layer → float.
    """
    optimizer = base_optimizer(model.optimizer)
    variables = model.trainable_variables
    squares = {"weight": [sum_of_squares(ops.convert_to_tensor(variable)) for variable in variables]}
    if getattr(optimizer, "built", False) and hasattr(optimizer, "last_update"):
        updates = (optimizer.last_update(variable, learning_rate) for variable in variables)
        squares["update"] = [sum_of_squares(update) for update in updates]
    totals = {name: _by_layer(variables, ops.convert_to_numpy(ops.stack(each))) for name, each in squares.items()}
    if "update" in totals:
        gradients = optimizer.gradient_norms_by_path()
        totals["gradient"] = _by_layer(variables, [gradients[variable.path] ** 2 for variable in variables])
    norms = {name: {layer: math.sqrt(total) for layer, total in each.items()} for name, each in totals.items()}
    if updates := norms.pop("update", None):
        norms["update_ratio"] = {layer: updates[layer] / max(norms["weight"][layer], 1e-30) for layer in updates}
    return norms


def _by_layer(variables, numbers):
    totals = {}
    for variable, number in zip(variables, np.asarray(numbers, "float64"), strict=True):
        layer = layer_of(variable.path)
        totals[layer] = totals.get(layer, 0.0) + float(number)
    return totals
