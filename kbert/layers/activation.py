"""The activation functions that a config can name."""

import math
from collections.abc import Callable

import keras
from keras import ops


def activation_function(name: str) -> Callable:
    """The function of this name (`kbert.config.ACTIVATIONS`), to be called as ``function(x, training=...)``.

    Both forms of the GELU are in use for the same weights: Google's code computes the tanh form, its first release and
    Hugging Face's port the erf form.

    Raises:
        ValueError: an unknown name.
    """
    if name not in _FUNCTIONS:
        raise ValueError(f"`activation` must be one of {tuple(_FUNCTIONS)}. Received: {name!r}")
    return _FUNCTIONS[name]


def _gelu_tanh(x, training=False):
    # In inference TensorFlow's own form, which its graph optimiser can fuse with the matmul before it.
    if training and keras.backend.backend() == "tensorflow":
        return _tensorflow_gelu_tanh(x)
    return ops.gelu(x, approximate=True)


def _tensorflow_gelu_tanh(x):
    """The same values and gradients in fewer passes over memory: 0.5 (1 + tanh u) = sigmoid(2 u)."""
    import tensorflow as tf

    linear = 2.0 * math.sqrt(2.0 / math.pi)
    cubic = 0.044715 * linear

    @tf.custom_gradient
    def gelu(x):
        square = x * x
        gate = tf.sigmoid(x * (linear + cubic * square))
        y = x * gate

        def gradient(dy):
            return dy * (gate + y * (1.0 - gate) * (linear + 3.0 * cubic * square))

        return y, gradient

    return gelu(x)


_FUNCTIONS = {
    "gelu_tanh": _gelu_tanh,
    "gelu_erf": lambda x, training=False: ops.gelu(x, approximate=False),
    "relu": lambda x, training=False: ops.relu(x),
    "silu": lambda x, training=False: ops.silu(x),
    "tanh": lambda x, training=False: ops.tanh(x),
}
