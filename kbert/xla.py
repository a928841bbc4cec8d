"""Groups of TensorFlow operations that XLA compiles by themselves, inside a step that runs operation by operation.

XLA makes one pass over memory of a group of elementwise operations and reductions, where TensorFlow makes one for each.
Compiling a whole step on a CPU loses more in its matrix products than this gains; compiling single groups loses
nothing. Nothing here concerns other backends.
"""

import functools

import keras


def is_worth_compiling(tensor, elements) -> bool:
    """Whether to compile a group of operations on `tensor`: on TensorFlow, large enough, and XLA is there.

    On TPUs it is not: they compile the whole step.

    Args:
        tensor: the group's largest tensor; unknown axes count as 1.
        elements: int; calling a compiled kernel for fewer costs more than it saves.
    """
    if keras.backend.backend() != "tensorflow":
        return False  # JAX compiles the whole step
    import tensorflow as tf

    size = 1
    for axis in tensor.shape:
        size *= axis or 1
    return size >= elements and _has_xla() and not isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)


def compiled(function):
    """A function of tensors as one that XLA compiles, once for each combination of shapes; to decorate a function."""

    @functools.cache
    def made():
        import tensorflow as tf  # not on import: other backends import the modules that use this

        return tf.function(function, jit_compile=True, autograph=False)

    return functools.wraps(function)(lambda *args: made()(*args))


@functools.cache
def _has_xla():
    """Whether this TensorFlow can compile a function with XLA; some builds lack the compiler."""
    import tensorflow as tf

    with tf.init_scope():
        try:
            return bool(tf.function(lambda x: x + 1.0, jit_compile=True)(tf.zeros(())) == 1.0)
        except (tf.errors.OpError, ValueError):
            return False
