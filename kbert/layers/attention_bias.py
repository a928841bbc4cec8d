"""Which token may attend to which, as numbers to add to the attention scores.

Shapes: B batch, S sequence.
"""

from typing import Any

import keras
from keras import ops

from kbert.checks import check_option
from kbert.keras_compat import Tensor

_FORBIDDEN = -10000.0  # Google's value: finite, so that a row of padding only does not become NaN


@keras.saving.register_keras_serializable("kbert")
class AttentionBias(keras.layers.Layer):
    """0 where a token may attend to another one and -10000 where not, computed once for all blocks.

    Padding is masked as a key of every query, but not as a query: outputs at padding have no meaning and are not used.
    In packed rows a token attends only to its own part. With ``causal`` it attends to nothing on its right.

    Args:
        causal: left-to-right attention.

    Inputs: ``padding_mask`` bool [B, S], True at tokens; ``part_ids`` int32 [B, S] for packed rows (0 = padding), or
    None.

    Outputs: float32 [B, 1, 1, S], or [B, 1, S, S] when queries differ (packed or causal).

    Source: Google's ``modeling.py``, ``create_attention_mask_from_input_mask`` and ``attention_layer``. "LTR": section
    5.1.

    Example::

        AttentionBias()(keras.ops.array([[True, True, False]]))  # [[[[0, 0, -10000]]]]
    """

    def __init__(self, causal: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.causal = check_option("AttentionBias", "causal", causal, bool)

    def call(self, padding_mask: Tensor, part_ids: Tensor | None = None) -> Tensor:
        # Axes are added by expand_dims: LiteRT has no operation for None between two slices.
        allowed = ops.expand_dims(ops.cast(padding_mask, "bool"), (1, 2))  # [B, 1, 1, S]
        if part_ids is not None:
            is_same = ops.equal(ops.expand_dims(part_ids, (1, 3)), ops.expand_dims(part_ids, (1, 2)))
            allowed = ops.logical_and(allowed, is_same)
        if self.causal:
            position = ops.arange(ops.shape(padding_mask)[1])
            allowed = ops.logical_and(allowed, ops.expand_dims(position, 1) >= position)  # [B, 1, S, S]
        return (1.0 - ops.cast(allowed, "float32")) * _FORBIDDEN

    def compute_output_spec(
        self, padding_mask: keras.KerasTensor, part_ids: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        batch, length = padding_mask.shape
        queries = length if self.causal or part_ids is not None else 1
        return keras.KerasTensor((batch, 1, queries, length), dtype="float32")

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"causal": self.causal}
