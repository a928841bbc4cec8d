"""Data-parallel replicas (`tf.distribute`), for the losses and the optimizer; one replica on other backends."""

import keras
from keras import ops

from kbert.keras_compat import Tensor, all_reduce_sum, custom_gradient, gather_rows


def count_replicas() -> int:
    """How many replicas run this step together; 1 outside a replica's step and on backends other than TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    if tf.distribute.get_replica_context() is None:  # building, or a call outside `strategy.run`
        return 1
    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_over_replicas(values: list[Tensor]) -> list[Tensor]:
    """The sum over all replicas of each tensor in a list, on every replica; no gradient passes through."""
    return values if count_replicas() == 1 else all_reduce_sum([ops.stop_gradient(value) for value in values])


def gather_from_replicas(values: list[Tensor]) -> list[Tensor]:
    """The rows of all replicas of each tensor in a list, one replica after the other, on every replica.

    Gradients flow back to the replica that a row came from. The replicas must have equally many rows.
    """
    if count_replicas() == 1:
        return values
    return [_gathered(value) for value in values]  # each by itself: integers may be on the host


def _gathered_gradient(upstream, value):
    import tensorflow as tf

    rows = tf.shape(value)[0]
    return (tf.gather(sum_over_replicas([upstream])[0], replica_number() * rows + tf.range(rows)),)


@custom_gradient(_gathered_gradient)
def _gathered(value):
    return gather_rows(value), ()


def replica_number() -> int | Tensor:
    """The number of this replica, from 0."""
    if count_replicas() == 1:
        return 0
    import tensorflow as tf

    return tf.distribute.get_replica_context().replica_id_in_sync_group
