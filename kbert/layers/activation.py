"""The activation functions that a config can name."""

import functools
from collections.abc import Callable

from keras import ops

from kbert.xla import fused, is_worth_fusing


def activation_function(name: str) -> Callable:
    """The function of this name (`kbert.config.ACTIVATIONS`), to be called as ``function(x, training=...)``.

    Both forms of the GELU are in use for the same weights: Google's code computes the tanh form, its first release and
    Hugging Face's port the erf form.
    """
    if name not in _FUNCTIONS:
        raise ValueError(f"`activation` must be one of {tuple(_FUNCTIONS)}. Received: {name!r}")
    return _FUNCTIONS[name]


def _gelu(approximate):
    def gelu(x, training=False):
        if (training or approximate) and is_worth_fusing(x):
            return _fused_gelu(approximate)((x,))
        return ops.gelu(x, approximate=approximate)  # of which TensorFlow fuses the erf form with the matmul before it

    return gelu


@functools.cache
def _fused_gelu(approximate):
    """The GELU in one pass over memory forward and one backward, computed in float32 whatever the type of x."""

    @fused
    def gelu(inputs, constants):
        return ops.cast(ops.gelu(ops.cast(inputs[0], "float32"), approximate=approximate), inputs[0].dtype)

    return gelu


_FUNCTIONS = {
    "gelu_tanh": _gelu(approximate=True),
    "gelu_erf": _gelu(approximate=False),
    "relu": lambda x, training=False: ops.relu(x),
    "silu": lambda x, training=False: ops.silu(x),
    "tanh": lambda x, training=False: ops.tanh(x),
}
