"""Choices of one question as rows of a batch.

Shapes: B batch, C choices, S sequence.
"""

import keras
from keras import ops


@keras.saving.register_keras_serializable("kbert")
class MergeChoices(keras.layers.Layer):
    """Merges the axis of choices into the batch axis, so that the encoder receives plain rows.

    Inputs: [B, C, S], any dtype.

    Outputs: [B * C, S]. Choice c of question b is row ``b * C + c``.

    Example::

        MergeChoices()(keras.ops.zeros((2, 4, 5)))  # [8, 5]
    """

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.built = True

    def call(self, inputs):
        return ops.reshape(inputs, (-1, ops.shape(inputs)[2]))

    def compute_output_spec(self, inputs):
        batch, choices, length = inputs.shape
        rows = None if batch is None or choices is None else batch * choices
        return keras.KerasTensor((rows, length), dtype=inputs.dtype)

    def get_config(self):  # Keras' automatic one takes no dtype policy
        return super().get_config()
