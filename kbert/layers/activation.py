"""The activation functions that a config can name."""

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
    fused_gelu = _fused_gelu_tanh if approximate else _fused_gelu_erf

    def gelu(x, training=False):
        if (training or approximate) and is_worth_fusing(x):
            return fused_gelu(x)
        return ops.gelu(x, approximate=approximate)  # of which TensorFlow fuses the erf form with the matmul before it

    return gelu


# The GELU in one pass over memory forward and one backward, computed in float32 whatever the type of x.


@fused
def _fused_gelu_tanh(x):
    return ops.cast(ops.gelu(ops.cast(x, "float32"), approximate=True), x.dtype)


@fused
def _fused_gelu_erf(x):
    return ops.cast(ops.gelu(ops.cast(x, "float32"), approximate=False), x.dtype)


_FUNCTIONS = {
    "gelu_tanh": _gelu(approximate=True),
    "gelu_erf": _gelu(approximate=False),
    "relu": lambda x, training=False: ops.relu(x),
    "silu": lambda x, training=False: x * ops.sigmoid(x),  # TensorFlow's keeps the graph in memory: `custom_gradient`
    "tanh": lambda x, training=False: ops.tanh(x),
}
