"""Groups of TensorFlow operations that XLA compiles by themselves, inside a step that runs operation by operation.

XLA makes one pass over memory of a group of elementwise operations and reductions, where TensorFlow makes one for each.
Compiling a whole step on a CPU loses more in its matrix products than this gains; compiling single groups loses
nothing. Nothing here concerns other backends.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras

from kbert.keras_compat import custom_gradient


def is_worth_compiling(tensor: Any, elements: int = 2**16) -> bool:
    """Whether to compile a group of operations, of which `tensor` is the largest: on TensorFlow, and large enough.

    Where the shape is not static it is not, as XLA would compile anew for every length of a batch; nor on TPUs, which
    compile the whole step. Calling a compiled kernel for fewer `elements` costs more than it saves.
    """
    if keras.backend.backend() != "tensorflow":
        return False  # JAX compiles the whole step
    import tensorflow as tf

    size = tensor.shape.num_elements() if tf.is_tensor(tensor) else None
    if size is None or size < elements:
        return False
    return _has_xla() and not isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)


def is_worth_fusing(tensor: Any) -> bool:
    """`is_worth_compiling` inside a graph: op by op every shape of a batch would be compiled."""
    if not is_worth_compiling(tensor):
        return False
    import tensorflow as tf

    return not tf.executing_eagerly()


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors as one that XLA compiles, once for each combination of shapes; to decorate a function."""

    @functools.cache
    def made():
        import tensorflow as tf  # not on import: other backends import the modules that use this

        return tf.function(function, jit_compile=True, autograph=False)

    return functools.wraps(function)(lambda *args: made()(*args))


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors that XLA compiles, and whose gradient XLA computes from the same inputs; a decorator.

    Nothing is stored for the gradient but the inputs: it computes the function again, which takes less time than to
    write what is between the operations, and to read it.
    """
    forward = compiled(function)

    @compiled
    def backward(upstream, *inputs):
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = function(*inputs)
        return tape.gradient(outputs, inputs, upstream)

    @custom_gradient(backward)
    @functools.wraps(function)
    def call(*inputs):
        return forward(*inputs), ()

    return call


@functools.cache
def _has_xla():
    """Whether this TensorFlow can compile a function with XLA; some builds lack the compiler."""
    import tensorflow as tf

    with tf.init_scope():
        try:
            return bool(tf.function(lambda x: x + 1.0, jit_compile=True)(tf.zeros(())) == 1.0)
        except (tf.errors.OpError, ValueError):
            return False
