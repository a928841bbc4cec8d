"""Hidden states → one vector for each text.

Shapes: B batch, S sequence, H hidden.
"""

from typing import Any

import keras
from keras import ops

from kbert.keras_compat import Tensor

POOLINGS = ("mean", "max", "cls")


@keras.saving.register_keras_serializable("kbert")
class EmbeddingPooling(keras.layers.Layer):
    """Pools the last hidden states of a text, in float32.

    Args:
        pooling: "mean" or "max" over the tokens (including [CLS] and [SEP], without padding), or "cls" for the hidden
            state of [CLS].
        normalize: whether to scale each vector to length 1, so that a dot product is the cosine similarity.

    Inputs: ``sequence_output`` float [B, S, H]; ``padding_mask`` bool [B, S], True at tokens.

    Outputs: float32 [B, H]. A row without tokens gets zeros, except with "cls".

    Raises:
        ValueError: an unknown pooling.

    Source: Reimers and Gurevych 2019 (Sentence-BERT), section 3.

    Example::

        EmbeddingPooling("mean", normalize=True)(keras.ops.ones((2, 5, 4)), keras.ops.ones((2, 5), "bool"))  # [2, 4]
    """

    def __init__(self, pooling: str = "mean", normalize: bool = True, **kwargs):
        super().__init__(**kwargs)
        if pooling not in POOLINGS:
            raise ValueError(f"EmbeddingPooling: `pooling` must be one of {POOLINGS}. Received: {pooling!r}")
        self.pooling = pooling
        self.normalize = normalize

    def call(self, sequence_output: Tensor, padding_mask: Tensor) -> Tensor:
        vectors = self._pooled(ops.cast(sequence_output, "float32"), padding_mask)
        return unit_length(vectors) if self.normalize else vectors

    def _pooled(self, states, padding_mask):
        if self.pooling == "cls":
            return states[:, 0]
        is_token = ops.expand_dims(ops.cast(padding_mask, "bool"), -1)  # [B, S, 1]
        count = ops.sum(ops.cast(is_token, "float32"), axis=1)  # [B, 1]
        if self.pooling == "max":
            return ops.where(count > 0, ops.max(ops.where(is_token, states, -3e38), axis=1), 0.0)
        return ops.divide_no_nan(ops.sum(ops.where(is_token, states, 0.0), axis=1), count)

    def compute_output_spec(
        self, sequence_output: keras.KerasTensor, padding_mask: keras.KerasTensor
    ) -> keras.KerasTensor:
        return keras.KerasTensor((sequence_output.shape[0], sequence_output.shape[-1]), dtype="float32")

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"pooling": self.pooling, "normalize": self.normalize}


def unit_length(vectors: Tensor) -> Tensor:
    """Vectors [..., H] scaled to length 1. Vectors near 0 stay near 0, with a finite gradient."""
    return vectors * ops.rsqrt(ops.maximum(ops.sum(ops.square(vectors), axis=-1, keepdims=True), 1e-12))
