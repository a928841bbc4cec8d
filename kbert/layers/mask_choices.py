"""Masks the scores of absent choices.

Shapes: B batch, C choices, S sequence.
"""

import keras
from keras import ops

ABSENT = -1e9  # finite, and its probability is 0


@keras.saving.register_keras_serializable("kbert")
class MaskChoices(keras.layers.Layer):
    """Gives choices without tokens the score -1e9, so that questions with different numbers of choices share a batch.

    Loss, gradient and probability of such a choice are 0.

    Inputs: ``scores`` float [B, C]; ``padding_mask`` bool [B, C, S], False everywhere in the row of an absent choice.

    Outputs: [B, C].

    Example::

        MaskChoices()(keras.ops.ones((1, 2)), keras.ops.array([[[True, True], [False, False]]]))  # [[1, -1e9]]
    """

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.built = True

    def call(self, scores, padding_mask):
        return ops.where(ops.any(ops.cast(padding_mask, "bool"), axis=-1), scores, ops.cast(ABSENT, scores.dtype))

    def compute_output_spec(self, scores, padding_mask):
        return keras.KerasTensor(scores.shape, dtype=scores.dtype)

    def get_config(self):  # Keras' automatic one takes no dtype policy
        return super().get_config()
