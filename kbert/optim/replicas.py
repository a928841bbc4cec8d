"""Data-parallel replicas (`tf.distribute`), for the losses and the optimizer; one replica on other backends."""

import keras

from kbert.keras_compat import Tensor


def count_replicas() -> int:
    """How many replicas run this step together; 1 outside a replica's step and on backends other than TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    if tf.distribute.get_replica_context() is None:  # building, or a call outside `strategy.run`
        return 1
    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_over_replicas(values: list[Tensor]) -> list[Tensor]:
    """The sum over all replicas of each tensor in a list, on every replica."""
    if count_replicas() == 1:
        return values
    import tensorflow as tf

    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)


def gather_from_replicas(values: list[Tensor]) -> list[Tensor]:
    """The rows of all replicas of each tensor in a list, one replica after the other, on every replica.

    Gradients flow back to the replica that a row came from. The replicas must have equally many rows.
    """
    if count_replicas() == 1:
        return values
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return [context.all_gather(value, axis=0) for value in values]  # each by itself: integers may be on the host


def replica_number() -> int | Tensor:
    """The number of this replica, from 0."""
    if count_replicas() == 1:
        return 0
    import tensorflow as tf

    return tf.distribute.get_replica_context().replica_id_in_sync_group
