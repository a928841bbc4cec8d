"""How fast this process multiplies matrices, measured.

Shapes: B products at once, of [m, k] and [k, n].
"""

import math
import time

import keras


def matmul_speed(left, right, precision="float32", *, transpose=(False, False), seconds=0.2):
    """The speed of one matrix product: the best of repeated ones, which other programs disturb least.

    Args:
        left, right: shapes of the factors as they are stored, [..., m, k] and [..., k, n].
        precision: "float32", "bfloat16" or "float16"; a mixed Keras policy means its compute dtype.
        transpose: whether the left and whether the right factor is stored transposed, [..., k, m] and [..., n, k].
    """
    make = _jax_product if keras.backend.backend() == "jax" else _tensorflow_product
    multiply = make(left, right, precision.removeprefix("mixed_"), transpose)
    multiply()
    best, end = float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < end:
        start = time.perf_counter()
        multiply()
        best = min(best, time.perf_counter() - start)
    return matmul_flops(left, right, transpose) / best


def matmul_flops(left, right, transpose=(False, False)) -> int:
    """Floating-point operations of a product, a multiply-add counted as 2; arguments as of `matmul_speed`."""
    columns = right[-2] if transpose[1] else right[-1]
    return 2 * math.prod(left) * columns


def _tensorflow_product(left, right, dtype, transpose):
    import tensorflow as tf

    a, b = (tf.cast(tf.random.stateless_normal(shape, (0, n)), dtype) for n, shape in enumerate((left, right)))

    @tf.function
    def product():
        # One element makes the host wait for the result without copying it.
        return tf.matmul(a, b, transpose_a=transpose[0], transpose_b=transpose[1])[..., :1, :1]

    return lambda: product().numpy()


def _jax_product(left, right, dtype, transpose):
    import jax

    a, b = (jax.random.normal(jax.random.key(n), shape, dtype) for n, shape in enumerate((left, right)))

    @jax.jit
    def product(a, b):
        a, b = (x.swapaxes(-1, -2) if is_transposed else x for x, is_transposed in zip((a, b), transpose, strict=True))
        return a @ b

    return lambda: product(a, b).block_until_ready()
