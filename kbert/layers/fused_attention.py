"""Attention as one kernel that never writes the scores: cuDNN's, through `keras.ops.dot_product_attention`.

Shapes: B batch, S sequence, A heads, D head width.
"""

import functools

import keras
from keras import ops


def can_fuse_attention(compute_dtype: str) -> bool:
    """Whether attention runs as one kernel: on the JAX backend, on a GPU, in bfloat16 or float16.

    On TensorFlow Keras has none, and on a TPU Keras 3.15 leaves out the bias.
    """
    return keras.backend.backend() == "jax" and compute_dtype in ("bfloat16", "float16") and _is_on_gpu()


def fused_attention(query, key, value, bias):
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
