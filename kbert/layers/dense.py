"""The product of a dense layer in training.

Shapes: ... any leading axes, R their product, H inputs, N units.
"""

import keras


def apply_dense(layer, inputs, training=False):
    """What a built `keras.layers.Dense` makes of its inputs, in training with a bias gradient summed in float32.

    TensorFlow's own operation for it adds bfloat16 in bfloat16, so that the sum over a few thousand rows is wrong by a
    tenth and more, and takes twice as long; here it is a matrix product.

    Args:
        layer: `keras.layers.Dense` of the caller's dtype policy.
        inputs: float [..., H].
        training: bool.

    Returns:
        float [..., N].
    """
    is_plain = layer.bias is not None and layer.quantization_mode is None
    if training and is_plain and keras.backend.backend() == "tensorflow":
        return product_in_training(layer, inputs)
    return layer(inputs)


def product_in_training(layer, inputs):
    """The same, of a layer with a bias in training on TensorFlow."""
    import tensorflow as tf

    @tf.custom_gradient
    def product(x, kernel, bias):  # [R, H], [H, N], [N]
        def gradient(upstream):
            ones = tf.ones((1, tf.shape(upstream)[0]), upstream.dtype)
            return (
                tf.matmul(upstream, kernel, transpose_b=True),
                tf.matmul(x, upstream, transpose_a=True),
                tf.matmul(ones, upstream)[0],
            )

        return tf.nn.bias_add(tf.matmul(x, kernel), bias), gradient  # which TensorFlow's graph optimiser fuses

    rows = inputs if len(inputs.shape) == 2 else tf.reshape(inputs, (-1, inputs.shape[-1]))
    x = product(rows, tf.convert_to_tensor(layer.kernel), tf.convert_to_tensor(layer.bias))
    if len(inputs.shape) != 2:
        x = keras.ops.reshape(x, (*keras.ops.shape(inputs)[:-1], x.shape[-1]))
    return x if layer.activation is None else layer.activation(x)
