"""Layer normalisation with BERT's epsilon.

Shapes: ... any leading axes, n their product, H hidden.
"""

from typing import Any

import keras
from keras import ops

from kbert.checks import check_option
from kbert.keras_compat import Tensor, custom_gradient
from kbert.options import Positive
from kbert.xla import compiled, is_worth_fusing


@keras.saving.register_keras_serializable("kbert")
class LayerNorm(keras.layers.LayerNormalization):
    """`keras.layers.LayerNormalization` over the last axis with BERT's epsilon, in float32 under any dtype policy.

    In training on TensorFlow the gradient is written out by hand, which takes fewer passes over memory than the one
    that TensorFlow derives. Otherwise XLA compiles the layer where that pays. Values and gradients are equal up to
    rounding.

    Args:
        epsilon: added to the variance. It is 1e-12 in all of Google's code, the masked-LM head included.
        **kwargs: name, dtype, trainable.

    Inputs: a float tensor [..., H].

    Outputs: [..., H] in the compute dtype.

    Raises:
        ValueError: `epsilon` is not a positive number. Or another argument of Keras' layer (``axis``, ``scale``,
            ``center``, initializers …): BERT's has a scale and an offset for each of the H features of the last axis.

    Source: Google's ``modeling.py``, ``layer_norm``.

    Example::

        LayerNorm(name="layer_norm")(keras.ops.ones((2, 3)))
    """

    def __init__(self, epsilon: float = 1e-12, **kwargs):
        if other := sorted(kwargs.keys() - {"name", "dtype", "trainable"}):
            raise ValueError(
                f"LayerNorm: expected epsilon, name, dtype or trainable. Received: {other}; for another normalisation "
                "use keras.layers.LayerNormalization."
            )
        super().__init__(epsilon=check_option("LayerNorm", "epsilon", epsilon, Positive), **kwargs)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training and is_worth_fusing(inputs):
            compute = keras.backend.result_type(inputs.dtype, "float32")
            epsilon = ops.convert_to_tensor(self.epsilon, compute)
            return _normalised(inputs, ops.cast(self.gamma, compute), ops.cast(self.beta, compute), epsilon)
        if not training or keras.backend.backend() != "tensorflow":
            return super().call(inputs)
        return _tensorflow_layer_norm(inputs, self.gamma, self.beta, self.epsilon, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return keras.layers.Layer.get_config(self) | {"epsilon": self.epsilon}


@compiled
def _normalised(inputs, gamma, beta, epsilon):
    import tensorflow as tf

    x = tf.cast(inputs, gamma.dtype)
    centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
    return tf.cast(centred * tf.math.rsqrt(variance + epsilon) * gamma + beta, inputs.dtype)


def _tensorflow_layer_norm(inputs, gamma, beta, epsilon, dtype):
    import tensorflow as tf

    compute = keras.backend.result_type(inputs.dtype, "float32")
    rows = tf.reshape(tf.cast(inputs, compute), (-1, inputs.shape[-1]))
    outputs = _training_norm(rows, tf.cast(gamma, compute), tf.cast(beta, compute), tf.constant(epsilon, compute))
    return tf.cast(tf.reshape(outputs, tf.shape(inputs)), dtype)


def _training_norm_gradient(dy, x, gamma, beta, epsilon, normal, scale):
    import tensorflow as tf

    ones = tf.ones((1, tf.shape(x)[0]), x.dtype)
    weight = tf.reshape(gamma / x.shape[-1], (-1, 1))  # [H, 1]: its products are means over H
    product = dy * normal
    dx = scale * (dy * gamma - tf.matmul(dy, weight) - normal * tf.matmul(product, weight))
    return dx, tf.matmul(ones, product)[0], tf.matmul(ones, dy)[0]


@custom_gradient(_training_norm_gradient)
def _training_norm(x, gamma, beta, epsilon):  # [n, H], [H], [H], []
    import tensorflow as tf

    centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
    scale = tf.math.rsqrt(tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True) + epsilon)  # [n, 1]
    normal = centred * scale
    return normal * gamma + beta, (normal, scale)
