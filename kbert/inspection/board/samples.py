"""What TensorBoard's histograms and layer curves show: samples of weights, norms by layer, entropy of attention.

Shapes: B batch, A heads, S sequence, L layers, C choices.
"""

import contextlib
import math
import re
import time

import numpy as np
from keras import ops

from kbert.keras_compat import base_optimizer
from kbert.optim.adamw import sum_of_squares


class Sampler:
    """Allows a measurement whenever all of them together stay below a share of the time.

    The first one is always allowed.

    Args:
        share: float, of the time since `begin`; 1.0 or more: every measurement is allowed.
        now: function that gives the time in seconds.

    Raises:
        ValueError: a `share` that is not above 0.

    Example::

        sampler = Sampler(0.01)
        sampler.begin()
        if sampler.is_due():
            with sampler.measure():
                norms = layer_norms(model, learning_rate)
    """

    def __init__(self, share, now=time.perf_counter):
        if isinstance(share, bool) or not isinstance(share, int | float) or not share > 0:
            raise ValueError(f"TensorBoard: `share` of the time must be a number above 0. Received: {share!r}")
        self.share, self._now = share, now
        self._start, self._spent, self._last = None, 0.0, 0.0

    def begin(self) -> None:
        """Starts the clock, once."""
        if self._start is None:
            self._start = self._now()

    def is_due(self, cost: float | None = None) -> bool:
        """Whether a measurement is allowed now.

        Args:
            cost: float, the seconds that it will take; None: as many as the last one.
        """
        cost = self._last if cost is None else cost
        return self.share >= 1 or self._spent + cost <= self.share * (self._now() - self._start)

    @contextlib.contextmanager
    def measure(self):
        """Counts the time of its block."""
        start = self._now()
        try:
            yield
        finally:
            self._last = self._now() - start
            self._spent += self._last


_MOST = 2**16  # values of a variable


def weight_samples(model) -> dict[str, np.ndarray]:
    """Values of every trainable matrix of a model: all of them, or 65,536 that are spread over rows and columns.

    Returns:
        dict of the variable's path → float32 [values].
    """
    return {
        variable.path: np.asarray(_spread(variable), "float32")
        for variable in model.trainable_variables
        if len(variable.shape) > 1
    }


def _spread(variable):
    count = math.prod(variable.shape)
    if count <= _MOST:
        return np.ravel(ops.convert_to_numpy(variable))
    stride = -(-count // _MOST)
    while math.gcd(stride, variable.shape[-1]) > 1:  # else a few columns would stand for all
        stride += 1
    return ops.convert_to_numpy(ops.reshape(ops.convert_to_tensor(variable), (-1,))[::stride])


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


class AttentionEntropy:
    """The entropy of the attention probabilities of every layer, head and token, on rows that stay the same.

    0 is attention to a single token; the logarithm of the number of tokens is attention to all of them alike.

    Args:
        model: one of kbert's models; its weights are read anew with each call.
        inputs: dict of arrays, a batch for the model or one with more keys.
        rows: int, the number of rows that are looked at.
    """

    def __init__(self, model, inputs, rows=4):
        self._encoder = model.encoder.with_outputs("attention_probs")
        names = self._encoder.input
        self._inputs = {name: _rows(np.asarray(inputs[name]))[:rows] for name in names}
        self._is_token = self._inputs["padding_mask"].astype(bool)

    def __call__(self) -> list[np.ndarray]:
        """L arrays of float32 [tokens × A]: for every token that is not padding and every head, in nats."""
        layers = self._encoder(self._inputs, training=False)["attention_probs"]
        return [self._entropies(ops.convert_to_numpy(probs)) for probs in layers]

    def _entropies(self, probs):
        probs = probs.astype("float64")  # [B, A, S, S]
        entropy = -(probs * np.log(np.maximum(probs, 1e-30))).sum(axis=-1)  # [B, A, S]
        return np.moveaxis(entropy, 1, -1)[self._is_token].ravel().astype("float32")


def _rows(array):
    """[B, S], of choices [B, C, S] too."""
    return array.reshape(-1, array.shape[-1])
