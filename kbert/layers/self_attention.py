"""Multi-head self-attention.

Shapes: B batch, S sequence, H hidden, A heads, D head width.
"""

import functools
from typing import Any

import keras
from keras import ops

from kbert.keras_compat import Tensor
from kbert.layers.lora_dense import LoraDense
from kbert.layers.replica_dropout import ReplicaDropout


@keras.saving.register_keras_serializable("kbert")
class SelfAttention(keras.layers.Layer):
    """Scaled dot-product attention of A heads over one sequence, with the output projection.

    Kernels are [H, H] as in Google's checkpoints: column ``a * D + d`` of query, key and value belongs to head a. The
    softmax is computed in float32 under any dtype policy. On the JAX backend a GPU computes all of it as one kernel
    where no probabilities are dropped or returned (`kbert.layers.self_attention`).

    Args:
        num_heads: A, which must divide H.
        attention_dropout: rate on the attention probabilities.
        initializer_stddev: of the kernels.

    Inputs: ``x`` float [B, S, H]; ``bias`` float [B, 1, 1 or S, S], added to the scores (see `AttentionBias`). With
    None every token attends to every other.

    Outputs: float [B, S, H]. With ``return_probs=True`` also the probabilities before dropout, float32 [B, A, S, S].

    Raises:
        ValueError: `num_heads` does not divide H.

    Source: Vaswani et al. 2017, section 3.2; Google's ``modeling.py``, ``attention_layer``.

    Example::

        x = keras.random.normal((2, 5, 12))
        y = SelfAttention(num_heads=3)(x, keras.ops.zeros((2, 1, 1, 5)))  # [2, 5, 12]
    """

    def __init__(self, num_heads: int, attention_dropout: float = 0.1, initializer_stddev: float = 0.02, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.attention_dropout = attention_dropout
        self.initializer_stddev = initializer_stddev
        self.dropout = ReplicaDropout(attention_dropout, dtype=self.dtype_policy, name="dropout")

    def build(self, x_shape, bias_shape=None) -> None:
        hidden_dim = x_shape[-1]
        if hidden_dim % self.num_heads:
            raise ValueError(
                "SelfAttention: `num_heads` must divide the width of the input. "
                f"Received: num_heads={self.num_heads}, input width {hidden_dim}"
            )
        self.head_dim = hidden_dim // self.num_heads
        self.query = self._projection(x_shape, "query")
        self.key = self._projection(x_shape, "key")
        self.value = self._projection(x_shape, "value")
        self.output_projection = self._projection(x_shape, "output")
        self.dropout.build((x_shape[0], self.num_heads, x_shape[1], x_shape[1]))

    def _projection(self, input_shape, name):
        dense = LoraDense(
            input_shape[-1],
            kernel_initializer=keras.initializers.TruncatedNormal(stddev=self.initializer_stddev),
            dtype=self.dtype_policy,
            name=name,
        )
        dense.build(input_shape)
        return dense

    def call(
        self, x: Tensor, bias: Tensor | None = None, return_probs: bool = False, training: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        batch, length, hidden_dim = ops.shape(x)
        rows = ops.reshape(x, (-1, hidden_dim))  # [B * S, H]: plain matmuls, whose bias TensorFlow fuses
        heads = (batch, length, self.num_heads, self.head_dim)
        is_dropping = training and self.attention_dropout > 0.0
        if not return_probs and not is_dropping and can_fuse_attention(self.compute_dtype):
            context = fused_attention(*(ops.reshape(part, heads) for part in self.project(rows)), bias)  # [B, S, A, D]
            output = self.output_projection(ops.reshape(context, (-1, hidden_dim)))
            return ops.reshape(output, (batch, length, hidden_dim))
        query, key, value = self.project_heads(rows, heads)  # [B, A, S, D]
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))  # [B, A, S, S]
        scores = ops.cast(scores, "float32")
        probs = ops.softmax(scores if bias is None else scores + ops.cast(bias, "float32"), axis=-1)
        dropped = self.dropout(ops.cast(probs, self.compute_dtype), training=training)
        context = ops.transpose(ops.matmul(dropped, value), (0, 2, 1, 3))  # [B, S, A, D]
        output = self.output_projection(ops.reshape(context, (-1, hidden_dim)))
        output = ops.reshape(output, (batch, length, hidden_dim))
        return (output, probs) if return_probs else output

    def project(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query (scaled), key and value of `rows`, float [B * S, H] each."""
        return self.query(rows) * (self.head_dim**-0.5), self.key(rows), self.value(rows)

    def project_heads(self, rows: Tensor, shape: tuple) -> list[Tensor]:
        """Query (scaled), key and value, float [B, A, S, D] each; `shape` is (B, S, A, D)."""
        return [ops.transpose(ops.reshape(part, shape), (0, 2, 1, 3)) for part in self.project(rows)]

    def compute_output_spec(
        self,
        x: keras.KerasTensor,
        bias: keras.KerasTensor | None = None,
        return_probs: bool = False,
        training: bool = False,
    ) -> keras.KerasTensor | tuple[keras.KerasTensor, keras.KerasTensor]:
        output = keras.KerasTensor(x.shape, dtype=self.compute_dtype)
        if not return_probs:
            return output
        batch, length, _ = x.shape
        return output, keras.KerasTensor((batch, self.num_heads, length, length), dtype="float32")

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "num_heads": self.num_heads,
            "attention_dropout": self.attention_dropout,
            "initializer_stddev": self.initializer_stddev,
        }


def can_fuse_attention(compute_dtype: str) -> bool:
    """Whether attention runs as one kernel: on the JAX backend, on a GPU, in bfloat16 or float16.

    On TensorFlow Keras has none, and on a TPU Keras 3.15 leaves out the bias.
    """
    return keras.backend.backend() == "jax" and compute_dtype in ("bfloat16", "float16") and _is_on_gpu()


def fused_attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    """Softmax of query times key plus bias, times value, without dropout of the probabilities: float [B, S, A, D].

    Query (scaled already), key and value are float [B, S, A, D], the bias is float [B, 1, 1 or S, S] or None. Where the
    kernel does not take the shapes or the device, JAX computes it in separate operations.
    """
    if bias is not None:  # the kernel wants each query's own, in its type
        batch, length = ops.shape(query)[:2]
        bias = ops.broadcast_to(ops.cast(bias, query.dtype), (batch, 1, length, length))
    return ops.dot_product_attention(query, key, value, bias=bias, scale=1.0)


@functools.cache
def _is_on_gpu():
    import jax

    return jax.default_backend() in ("gpu", "cuda")
