"""`tf.distribute` strategies under which Keras' `fit` and `evaluate` run."""

import tensorflow as tf


class _ReducesForKeras:
    """Two reductions that Keras asks a strategy for, and TensorFlow refuses.

    Before training Keras takes the mean over replicas of one batch, only to learn its shapes and types: that fails on
    bool masks and on strings, and with several workers on any batch (keras issue 20585). Here it is the first replica's
    part. After each step it takes the mean of scalars along their first axis, with several workers (tensorflow issue
    72388). Here it is their mean over replicas.
    """

    def reduce(self, reduce_op, value, axis):
        if str(reduce_op).upper().endswith("MEAN"):
            if tf.nest.is_nested(value):
                return tf.nest.map_structure(lambda leaf: self.experimental_local_results(leaf)[0], value)
            if axis == 0 and all(local.shape.rank == 0 for local in self.experimental_local_results(value)):
                axis = None
        return super().reduce(reduce_op, value, axis)


class MirroredStrategy(_ReducesForKeras, tf.distribute.MirroredStrategy):
    """`tf.distribute.MirroredStrategy` on which Keras trains models whose batches have masks or strings."""


class MultiWorkerMirroredStrategy(_ReducesForKeras, tf.distribute.MultiWorkerMirroredStrategy):
    """`tf.distribute.MultiWorkerMirroredStrategy` on which Keras trains."""
