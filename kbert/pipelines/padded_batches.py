"""Joins the answers of several batches, each as wide as the longest text of its batch.

Shapes: B batch.
"""

import math

import keras
import numpy as np
import tensorflow as tf


def column_batches(x, batch_size, steps=None):
    """At most `steps` batches of columns from what `Pipeline.predict` takes.

    That is a dict of columns [B], or a source of such batches. Yields dicts of columns, or columns alone.
    """
    if isinstance(x, dict):
        rows = int(tf.shape(next(iter(x.values())))[0])
        batches = ({k: v[n : n + batch_size] for k, v in x.items()} for n in range(0, rows, batch_size))
    elif isinstance(x, keras.utils.PyDataset):
        batches = (x[n] for n in range(len(x)))
    else:
        batches = iter(x)
    for number, batch in enumerate(batches):
        if steps is not None and number >= steps:
            return
        yield batch[0] if isinstance(batch, tuple) else batch


def count_batches(x, batch_size, steps=None) -> int | None:
    """How many batches `column_batches` yields. None where only reading them would tell."""
    if isinstance(x, dict):
        count = math.ceil(int(tf.shape(next(iter(x.values())))[0]) / batch_size)
    elif isinstance(x, keras.utils.PyDataset):
        count = len(x)
    else:
        count = int(x.cardinality()) if isinstance(x, tf.data.Dataset) else -1  # below 0: not known
    return steps if count < 0 else count if steps is None else min(count, steps)


def join_padded(answers, pad_values):
    """Joins dicts of arrays into one: the rows in order, each array padded to the widest.

    `pad_values` has the padding value for each name whose width varies.
    """
    joined = {}
    for name in answers[0]:
        arrays = [np.asarray(one[name]) for one in answers]
        if name in pad_values:
            width = max(array.shape[1] for array in arrays)
            arrays = [
                np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=pad_values[name])
                for array in arrays
            ]
        joined[name] = np.concatenate(arrays)
    return joined
