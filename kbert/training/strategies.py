"""The `tf.distribute` strategy of several machines, as Keras' `fit` and `evaluate` need it."""

import tensorflow as tf


class MultiWorkerMirroredStrategy(tf.distribute.MultiWorkerMirroredStrategy):
    """`tf.distribute.MultiWorkerMirroredStrategy` under which Keras trains.

    After each step Keras asks for the mean of scalars along their first axis, which TensorFlow refuses where there are
    several workers (tensorflow issue 72388). Here it is their mean over replicas.
    """

    def reduce(self, reduce_op, value, axis):
        is_mean = str(reduce_op).upper().endswith("MEAN")
        if is_mean and axis == 0 and all(local.shape.rank == 0 for local in self.experimental_local_results(value)):
            axis = None
        return super().reduce(reduce_op, value, axis)
