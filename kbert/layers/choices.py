"""Choices of one question as rows of a batch, and the scores of the rows as those of their questions.

Shapes: B batch, C choices, S sequence.
"""

from typing import Any

import keras
from keras import ops

from kbert.keras_compat import Tensor


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

    def call(self, inputs: Tensor) -> Tensor:
        return ops.reshape(inputs, (-1, ops.shape(inputs)[2]))

    def compute_output_spec(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        batch, choices, length = inputs.shape
        rows = None if batch is None or choices is None else batch * choices
        return keras.KerasTensor((rows, length), dtype=inputs.dtype)

    def get_config(self) -> dict[str, Any]:  # Keras' automatic one takes no dtype policy
        return super().get_config()


ABSENT = -1e9  # finite, and its probability is 0


@keras.saving.register_keras_serializable("kbert")
class SplitChoices(keras.layers.Layer):
    """The inverse of `MergeChoices` for scores. Choices without tokens get -1e9.

    Loss, gradient and probability of such a choice are 0, so that questions with different numbers of choices share a
    batch.

    Inputs: ``scores`` float [B * C, 1]; ``padding_mask`` bool [B, C, S], False everywhere in the row of an absent
    choice.

    Outputs: [B, C], in the dtype of the scores.

    Example::

        SplitChoices()(keras.ops.ones((2, 1)), keras.ops.array([[[True, True], [False, False]]]))  # [[1, -1e9]]
    """

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)  # scores stay float32 under a global mixed policy
        self.built = True

    def call(self, scores: Tensor, padding_mask: Tensor) -> Tensor:
        is_there = ops.any(ops.cast(padding_mask, "bool"), axis=-1)  # [B, C]
        return ops.where(is_there, ops.reshape(scores, ops.shape(is_there)), ops.cast(ABSENT, scores.dtype))

    def compute_output_spec(self, scores: keras.KerasTensor, padding_mask: keras.KerasTensor) -> keras.KerasTensor:
        return keras.KerasTensor(padding_mask.shape[:2], dtype=scores.dtype)

    def get_config(self) -> dict[str, Any]:  # Keras' automatic one takes no dtype policy
        return super().get_config()
