"""One vector for a whole sequence.

Shapes: B batch, S sequence, H hidden, K parts of a packed row.
"""

from typing import Any

import keras
from keras import ops

from kbert.keras_compat import Tensor
from kbert.layers.lora_dense import LoraDense


@keras.saving.register_keras_serializable("kbert")
class Pooler(keras.layers.Layer):
    """dense(H, tanh) of the first token, [CLS], or of the last one. In packed rows every part is pooled.

    Args:
        num_parts: K, the maximum number of parts of a packed row. None: plain rows.
        initializer_stddev: of the kernel.
        token: "first" or "last". Under left-to-right attention only the last token attends to all others.

    Inputs: ``sequence_output`` float [B, S, H]; ``part_ids`` int32 [B, S] for packed rows: 1 … K, 0 = padding;
    ``padding_mask`` bool [B, S], True at tokens, which the last token of plain rows needs.

    Outputs: float [B, H]. For packed rows [B, K, H], where a part that a row does not hold gets zeros.

    Source: Google's ``modeling.py``, ``BertModel`` ("pooler").

    Example::

        Pooler()(keras.ops.ones((2, 5, 4)))  # [2, 4]
    """

    def __init__(self, num_parts: int | None = None, initializer_stddev: float = 0.02, token: str = "first", **kwargs):
        super().__init__(**kwargs)
        self.num_parts = num_parts
        self.initializer_stddev = initializer_stddev
        self.token = token

    def build(self, sequence_output_shape, part_ids_shape=None, padding_mask_shape=None) -> None:
        hidden_dim = sequence_output_shape[-1]
        self.dense = LoraDense(
            hidden_dim,
            activation="tanh",
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_stddev),
            dtype=self.dtype_policy,
            name="dense",
        )
        self.dense.build((None, hidden_dim))

    def call(
        self,
        sequence_output: Tensor,
        part_ids: Tensor | None = None,
        padding_mask: Tensor | None = None,
        training: bool = False,
    ) -> Tensor:
        if self.num_parts is None:
            if self.token == "first":
                return self.dense(sequence_output[:, 0], training=training)  # [B, H]
            last = _last(ops.cast(padding_mask, "bool"))  # [B]
            tokens = ops.take_along_axis(sequence_output, ops.expand_dims(last, (1, 2)), axis=1)
            return self.dense(tokens[:, 0], training=training)
        parts = ops.arange(1, self.num_parts + 1, dtype="int32")
        belongs = ops.equal(ops.expand_dims(part_ids, 1), ops.expand_dims(parts, 1))  # [B, K, S]
        is_first = self.token == "first"
        place = ops.argmax(ops.cast(belongs, "int32"), axis=-1) if is_first else _last(belongs)  # [B, K]; 0: absent
        present = ops.cast(ops.any(belongs, axis=-1, keepdims=True), self.compute_dtype)  # [B, K, 1]
        tokens = ops.take_along_axis(sequence_output, ops.expand_dims(place, 2), axis=1)
        return self.dense(tokens, training=training) * present  # [B, K, H]

    def compute_output_spec(
        self,
        sequence_output: keras.KerasTensor,
        part_ids: keras.KerasTensor | None = None,
        padding_mask: keras.KerasTensor | None = None,
        training: bool = False,
    ) -> keras.KerasTensor:
        batch, _, hidden_dim = sequence_output.shape
        shape = (batch, hidden_dim) if self.num_parts is None else (batch, self.num_parts, hidden_dim)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def with_parts(self, num_parts: int | None) -> "Pooler":
        """A pooler for rows of so many parts (None: plain rows) that shares the weights of this built one."""
        pooler = Pooler(num_parts, self.initializer_stddev, self.token, dtype=self.dtype_policy, name=self.name)
        pooler.dense, pooler.built = self.dense, True
        return pooler

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "num_parts": self.num_parts,
            "initializer_stddev": self.initializer_stddev,
            "token": self.token,
        }


def _last(mask):
    """The last place where a mask [..., S] is True, 0 where it is nowhere."""
    places = ops.arange(ops.shape(mask)[-1], dtype="int32")
    return ops.max(ops.where(mask, places, 0), axis=-1)
