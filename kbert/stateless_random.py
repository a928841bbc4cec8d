"""Randomness as a function: counter-based hashing of keys, vectorised, without any state.

A key is an int64 number or tensor; `fold_in` derives new keys from it, `uniform` and `random_integers` draw numbers.
Row i of a result depends on key i alone, so what is drawn for an example is the same in whatever batch it stands.
Two draws that must be independent need two keys: fold a different constant into each.

The mixing function is the finaliser of SplitMix64 (Steele, Lea and Flood 2014), which passes BigCrush.

Shapes: B batch (keys), n numbers for each key.
"""

from typing import Any

import tensorflow as tf

_STEP = 0x9E3779B97F4A7C15  # the golden ratio in 64 bits: SplitMix64's increment
_DRAW = 0xD1B54A32D192ED03  # keeps the numbers drawn from a key apart from the keys folded from it


def fold_in(key: Any, *data) -> tf.Tensor:
    """Mixes `data` into `key`, one after the other: `fold_in(seed, epoch, tf.range(32))` are keys of 32 examples.

    Both are ints, or integers as tensors, Keras variables or lists, of shapes that broadcast; so is the int64 result.
    """
    key = _int64(key)
    for number in data:
        step = _int64((number + 1) * _STEP) if isinstance(number, int) else (_int64(number) + 1) * _int64(_STEP)
        key = _mix(key + step)
    return key


def uniform(keys: Any, n: int | tf.Tensor) -> tf.Tensor:
    """Float32 numbers in [0, 1), multiples of 2**-24: shape [..., n] for keys [...].

    Column j is a function of (key, j) only: a larger `n` adds columns and changes none.
    """
    bits = _shift_right(_draw(keys, n), 40)  # float32 holds 24 bits exactly
    return tf.cast(bits, tf.float32) * (2.0**-24)


def random_integers(keys: Any, n: int | tf.Tensor, low: Any, high: Any) -> tf.Tensor:
    """Int64 numbers in [low, high): shape [..., n] for keys [...]; bounds broadcast, and differ by 1 to 2**31-1."""
    low, high = _int64(low), _int64(high)
    bits = _shift_right(_draw(keys, n), 32)
    return low + _shift_right(bits * (high - low), 32)


def permutation(key: Any, n: int | tf.Tensor) -> tf.Tensor:
    """A random order of range(n), int32 [n], as a function of the key alone."""
    return tf.argsort(_draw(key, n), stable=True)


def _draw(keys, n):
    counters = (tf.range(tf.cast(n, tf.int64)) + 1) * _int64(_STEP)  # [n]
    return _mix(tf.bitwise.bitwise_xor(_int64(keys), _int64(_DRAW))[..., tf.newaxis] + counters)  # [..., n]


def _mix(x):
    x = tf.bitwise.bitwise_xor(x, _shift_right(x, 30)) * _int64(0xBF58476D1CE4E5B9)
    x = tf.bitwise.bitwise_xor(x, _shift_right(x, 27)) * _int64(0x94D049BB133111EB)
    return tf.bitwise.bitwise_xor(x, _shift_right(x, 31))


def _shift_right(x, bits):
    # TensorFlow's shift of signed numbers copies the sign bit; the hash needs zeros there.
    return tf.bitwise.bitwise_and(tf.bitwise.right_shift(x, _int64(bits)), _int64((1 << (64 - bits)) - 1))


def _int64(value):
    if isinstance(value, int):
        value = (value + 2**63) % 2**64 - 2**63  # any Python integer wraps into 64 bits
        return tf.constant(value, tf.int64)
    if isinstance(value, list | tuple):
        return tf.stack([_int64(part) for part in value])
    return tf.cast(tf.convert_to_tensor(value), tf.int64)  # `tf.cast` itself cannot read a Keras variable
