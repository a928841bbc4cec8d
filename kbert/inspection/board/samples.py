"""What TensorBoard's histograms and layer curves show: samples of weights, norms by layer, entropy of attention.

Shapes: B batch, A heads, S sequence, L layers, C choices.
"""

import contextlib
import math
import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from kbert.checks import check_option
from kbert.keras_compat import base_optimizer
from kbert.models.check_inputs import complete_inputs
from kbert.optim.adamw import AdamW, sum_of_squares
from kbert.options import Positive

if TYPE_CHECKING:
    import keras

    from kbert.models.bert_model import BertModel


class Sampler:
    """Allows the first measurement, and more while all together take less than `fraction` (1.0: all) of the time."""

    def __init__(self, fraction: float, now: Callable[[], float] = time.perf_counter) -> None:
        self.fraction = check_option("TensorBoard", "time_fraction", fraction, Positive)
        self._now = now
        self._start = None
        self._spent = 0.0
        self._last = 0.0

    def begin(self) -> None:
        """Starts the clock, once."""
        if self._start is None:
            self._start = self._now()

    def is_due(self) -> bool:
        """Whether a measurement that takes as long as the last one is allowed now."""
        return self.fraction >= 1 or self._spent + self._last <= self.fraction * (self._now() - self._start)

    @contextlib.contextmanager
    def measure(self) -> Iterator[None]:
        """Counts the time of its block."""
        start = self._now()
        try:
            yield
        finally:
            self._last = self._now() - start
            self._spent += self._last


_MOST = 2**16  # values taken of a variable


def weight_samples(model: "keras.Model") -> dict[str, np.ndarray]:
    """Variable's path → float32 values of every trainable matrix, of large ones 65,536 from all rows and columns."""
    matrices = [variable for variable in model.trainable_variables if len(variable.shape) > 1]
    return {variable.path: np.asarray(_spread(variable), "float32") for variable in matrices}


def _spread(variable):
    count = math.prod(variable.shape)
    if count <= _MOST:
        return np.ravel(ops.convert_to_numpy(variable))
    stride = -(-count // _MOST)
    while math.gcd(stride, variable.shape[-1]) > 1:  # otherwise a few columns would stand for all
        stride += 1
    return ops.convert_to_numpy(ops.reshape(ops.convert_to_tensor(variable), (-1,))[::stride])


def layer_of(path: str) -> str:
    """The layer of a variable: a block such as "encoder_block_1", or the first part of its path."""
    block = re.search(r"(?:^|/)(encoder_block_\d+)/", path)
    return block[1] if block else path.split("/")[0]


def layer_norms(model: "keras.Model", learning_rate: float) -> dict[str, dict[str, float]]:
    """Norms over the trainable weights: name of the norm → layer → float.

    ``weight`` is always there. ``gradient`` (of the last update, before clipping) and ``update_ratio`` (norm of the
    last update over norm of the weights) need an optimizer that keeps them: `kbert.AdamW` or `Lamb`.
    """
    optimizer = base_optimizer(model.optimizer)
    variables = model.trainable_variables

    def norms(tensors):
        return _by_layer(variables, ops.convert_to_numpy(ops.stack([sum_of_squares(tensor) for tensor in tensors])))

    weights = norms(ops.convert_to_tensor(variable) for variable in variables)
    if not isinstance(optimizer, AdamW) or not optimizer.built:
        return {"weight": weights}
    updates = norms(optimizer.last_update(variable, learning_rate) for variable in variables)
    gradients = optimizer.gradient_norms_by_path()
    return {
        "weight": weights,
        "gradient": _by_layer(variables, [gradients[variable.path] ** 2 for variable in variables]),
        "update_ratio": {layer: norm / max(weights[layer], 1e-30) for layer, norm in updates.items()},
    }


def _by_layer(variables, squares):
    totals = {}
    for variable, square in zip(variables, np.asarray(squares, "float64"), strict=True):
        layer = layer_of(variable.path)
        totals[layer] = totals.get(layer, 0.0) + float(square)
    return {layer: math.sqrt(total) for layer, total in totals.items()}


class AttentionEntropy:
    """The entropy of the attention of every layer, head and token, on fixed rows, with the weights as they then are."""

    def __init__(self, model: "BertModel", inputs: Any, rows: int = 4) -> None:
        self._encoder = model.encoder.with_outputs("attention_probs")
        inputs = complete_inputs(model, inputs)
        batch = {name: np.asarray(inputs[name]) for name in self._encoder.input}
        # Rows of tokens [rows, S], from [B, S] or, with choices, [B, C, S].
        self._inputs = {name: array.reshape(-1, array.shape[-1])[:rows] for name, array in batch.items()}
        self._is_token = self._inputs["padding_mask"].astype(bool)

    def __call__(self) -> list[np.ndarray]:
        """L arrays float32 [tokens × A]: nats for every head and every token that is not padding."""
        layers = self._encoder(self._inputs, training=False)["attention_probs"]
        return [self._entropies(ops.convert_to_numpy(probs).astype("float64")) for probs in layers]

    def _entropies(self, probs):
        entropy = -(probs * np.log(np.maximum(probs, 1e-30))).sum(axis=-1)  # [B, A, S]
        return np.moveaxis(entropy, 1, -1)[self._is_token].ravel().astype("float32")
