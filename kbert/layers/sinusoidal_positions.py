"""The Transformer's position encoding: sines and cosines instead of a learned table.

Shapes: B batch, S sequence, H hidden.
"""

import math
from typing import Any

import keras
from keras import ops

from kbert.keras_compat import Tensor

_LONGEST_WAVE = 10000.0  # times 2 pi, in tokens


@keras.saving.register_keras_serializable("kbert")
class SinusoidalPositions(keras.layers.Layer):
    """Position p as sin(p / 10000^(2i / H)) and cos(p / 10000^(2i / H)) in columns 2i and 2i + 1, without weights.

    They are scaled by `initializer_stddev`, so that their size relative to new token embeddings is as in the
    Transformer, which multiplies its embeddings by the square root of H to a variance of 1.

    Args:
        hidden_dim: H, even.
        initializer_stddev: of the token embeddings.

    Inputs: int32 position ids [S] or [B, S].

    Outputs: float [..., H] in the compute dtype.

    Raises:
        ValueError: an odd `hidden_dim`.

    Source: Vaswani et al. 2017, section 3.5. BERT's own positions are learned.

    Example::

        SinusoidalPositions(4, 1.0)(keras.ops.array([0]))  # [[0, 1, 0, 1]]
    """

    def __init__(self, hidden_dim: int, initializer_stddev: float = 0.02, **kwargs):
        super().__init__(**kwargs)
        if hidden_dim % 2:
            raise ValueError(f"SinusoidalPositions: `hidden_dim` must be even. Received: {hidden_dim}")
        self.hidden_dim = hidden_dim
        self.initializer_stddev = initializer_stddev

    def call(self, position_ids: Tensor) -> Tensor:
        exponents = ops.arange(0, self.hidden_dim, 2, dtype="float32") / self.hidden_dim  # [H / 2]
        frequencies = ops.exp(-math.log(_LONGEST_WAVE) * exponents)
        angles = ops.expand_dims(ops.cast(position_ids, "float32"), -1) * frequencies  # [..., H / 2]
        waves = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # [..., H / 2, 2]
        waves = ops.reshape(waves, (*ops.shape(position_ids), self.hidden_dim))
        return ops.cast(self.initializer_stddev * waves, self.compute_dtype)

    def compute_output_spec(self, position_ids: keras.KerasTensor) -> keras.KerasTensor:
        return keras.KerasTensor((*position_ids.shape, self.hidden_dim), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "hidden_dim": self.hidden_dim,
            "initializer_stddev": self.initializer_stddev,
        }
