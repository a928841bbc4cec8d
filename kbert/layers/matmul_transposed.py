"""A product with the transpose of a table.

Shapes: ... any leading axes, H hidden, V vocabulary.
"""

import keras
from keras import ops


def matmul_transposed(x, table):
    """``x @ table.T``: [..., H] and [V, H] → [..., V].

    `keras.ops.matmul` cannot be told that an operand is transposed; on TensorFlow the transposed table, and in the
    backward pass its gradient, would be written out: a second copy of the largest tensor of the model.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        table = tf.convert_to_tensor(table)
        if len(x.shape) == 2:
            return tf.matmul(x, table, transpose_b=True)
        return tf.tensordot(x, table, axes=[[-1], [1]])
    return ops.matmul(x, ops.transpose(table))
