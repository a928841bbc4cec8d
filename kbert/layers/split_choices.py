"""One score per row, back to one row of scores per question.

Shapes: B batch, C choices, S sequence.
"""

import keras
from keras import ops


@keras.saving.register_keras_serializable("kbert")
class SplitChoices(keras.layers.Layer):
    """The inverse of `MergeChoices` for scores.

    Inputs: ``scores`` [B * C, 1]; ``like`` [B, C, S], the batch that was merged.

    Outputs: [B, C], in the dtype of the scores.

    Example::

        SplitChoices()(keras.ops.zeros((8, 1)), keras.ops.zeros((2, 4, 5)))  # [2, 4]
    """

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)  # scores stay float32 under a global mixed policy
        self.built = True

    def call(self, scores, like):
        batch, choices = ops.shape(like)[:2]
        return ops.reshape(scores, (batch, choices))

    def compute_output_spec(self, scores, like):
        return keras.KerasTensor(like.shape[:2], dtype=scores.dtype)

    def get_config(self):  # Keras' automatic one takes no dtype policy
        return super().get_config()
