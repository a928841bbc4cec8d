"""One batch again and again, for measuring; without TensorFlow on other backends, where it may not be installed."""

import keras


def repeated_batch(batch, count: int):
    """A dataset, or off TensorFlow a `keras.utils.PyDataset`, that gives the same batch so many times."""
    if keras.backend.backend() != "tensorflow":
        return _RepeatedBatch(batch, count)
    import tensorflow as tf

    return tf.data.Dataset.from_tensors(batch).repeat(count)


class _RepeatedBatch(keras.utils.PyDataset):
    def __init__(self, batch, count):
        super().__init__()
        self._batch, self._count = batch, count

    def __len__(self):
        return self._count

    def __getitem__(self, index):
        return self._batch

    def as_numpy_iterator(self):
        return iter([self._batch])  # all are the same
