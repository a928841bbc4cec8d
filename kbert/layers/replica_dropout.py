"""Dropout whose masks differ on every replica."""

from typing import Any

import keras

from kbert.keras_compat import Tensor


@keras.saving.register_keras_serializable("kbert")
class ReplicaDropout(keras.layers.Layer):
    """`keras.layers.Dropout` with a different mask on every replica of a `tf.distribute` strategy.

    Keras mirrors the state of its seed generators, so that its own layer drops equal positions on all replicas. With
    R replicas the noise of a batch would be that of a batch R times smaller. Here the replica's number is part of the
    seed.

    On JAX one mask is drawn for the whole batch, wherever its rows are, by the device's own generator ("rbg"). The
    default one, threefry, takes longer than the matrix products around it on an accelerator. Other backends use
    `keras.random.dropout`.

    Args:
        rate: fraction of the values set to zero in training. The others are scaled by 1 / (1 - rate). On TensorFlow and
            JAX it is rounded to a multiple of 2^-16.
        seed: None: a random one.

    Inputs: a float tensor of any shape.

    Outputs: a tensor of the input's shape and dtype.

    Raises:
        ValueError: `rate` outside [0, 1).

    Example::

        keras.utils.set_random_seed(0)
        ReplicaDropout(0.5)(keras.ops.ones((2, 3)), training=True)
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"ReplicaDropout: `rate` must be in [0, 1). Received: {rate!r}")
        self.rate = rate
        self.seed = seed
        if rate > 0.0:
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.given_seed = None  # instead of the generator's next, for `rematerialized`
        self.supports_masking = True

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training or self.rate == 0.0:
            return inputs
        if keras.backend.backend() == "tensorflow":
            return _replica_dropout(inputs, self.rate, self._seed())
        if keras.backend.backend() == "jax":
            return _jax_dropout(inputs, self.rate, self._seed())
        return keras.random.dropout(inputs, self.rate, seed=self.seed_generator)

    def _seed(self):
        return self.seed_generator.next() if self.given_seed is None else self.given_seed

    def compute_output_shape(self, input_shape) -> tuple:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"rate": self.rate, "seed": self.seed}


def _replica_dropout(x, rate, seed):
    import tensorflow as tf

    seed = tf.cast(seed, tf.int32)
    context = tf.distribute.get_replica_context()
    if context is not None and context.num_replicas_in_sync > 1:
        # The seed is (key, count of calls). A multiple of the replica in the key, not in the count: replica 1 must not
        # repeat at this step what replica 0 draws at the next.
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
        seed = seed + tf.stack([replica * 7919, 0])
    dropped = _dropped_of_words(rate)
    size = tf.size(x)
    words = tf.random.stateless_uniform([(size + 1) // 2], seed, minval=None, maxval=None, dtype=tf.uint32)
    bits = tf.reshape(tf.reshape(tf.bitcast(words, tf.uint16), [-1])[:size], tf.shape(x))
    # A product with a mask of 0 and 1 / (1 - rate): a pass over the values less than tf.nn's, forward and backward.
    keep = tf.cast(bits >= tf.constant(dropped, tf.uint16), x.dtype)
    return x * (keep * tf.cast(1.0 / (1.0 - dropped / 2**16), x.dtype))


def _jax_dropout(x, rate, seed):
    import jax

    # Keras' seeds are threefry's [key, count of calls]. An rbg key has two such halves; JAX makes them equal too.
    key = jax.random.wrap_key_data(jax.numpy.concatenate([seed, seed]).astype("uint32"), impl="rbg")
    dropped = _dropped_of_words(rate)
    keep = (jax.random.bits(key, x.shape, "uint16") >= dropped).astype(x.dtype)
    return x * (keep * jax.numpy.asarray(1.0 / (1.0 - dropped / 2**16), x.dtype))


def _dropped_of_words(rate):
    """How many of the 2^16 values of a random word drop an element.

    16 random bits decide about a value, half of what a random float takes. The rate that they can express differs from
    the given one by at most 1 / 2^17. The scale is that of the rate applied.
    """
    return min(round(rate * 2**16), 2**16 - 1)
