"""Weights as constants of an exported graph, each once for all of its signatures."""

import math
from collections.abc import Callable

import keras
import tensorflow as tf

# What a SavedModel's graph can hold, less 64 MB for all that is not weights.
_MOST_BYTES = 2**31 - 2**26


class FrozenWeights:
    """Functions that read a model's weights as constants instead of variables.

    oneDNN, TensorFlow's kernels on CPUs, keeps the packed form of a matrix only if it is a constant. A variable is
    packed anew for every product. Each constant is the result of a function without arguments in the graph's library.
    All signatures call it, so it is on the disk once. TensorFlow replaces the call by the constant when it loads a
    signature, in the bodies of its loops too.
    """

    def __init__(self, variables: list[keras.Variable]) -> None:
        size = sum(math.prod(each.shape) * tf.as_dtype(each.dtype).size for each in variables)
        if size > _MOST_BYTES:
            raise ValueError(
                f"export: `frozen_weights` go into the graph, which can hold {_MOST_BYTES:,} bytes "
                f'of them. Received: {size:,} bytes. Export in precision="bfloat16", or without '
                "`frozen_weights`."
            )
        self._constants = {id(variable): _constant(variable) for variable in variables}
        self._frozen = {}

    def freeze(self, function: Callable) -> Callable:
        """The function with constants, made once for each function."""
        if function not in self._frozen:

            def frozen(*inputs):
                with _ConstantScope(self._constants):
                    return function(*inputs)

            self._frozen[function] = frozen
        return self._frozen[function]


class _ConstantScope(keras.StatelessScope):
    """Within it, reading a variable calls the function of its constant, in the graph being traced.

    A tensor of the outer graph would become an input of a loop's body, and no constant there.
    """

    def __init__(self, constants: dict[int, Callable]):
        super().__init__()
        self.constants = constants

    def get_current_value(self, variable):
        constant = self.constants.get(id(variable))
        return super().get_current_value(variable) if constant is None else constant()


def _constant(variable: keras.Variable) -> Callable:
    value = variable.numpy()
    return tf.function(lambda: tf.constant(value), input_signature=[], autograph=False)
