"""Joins the answers of several batches, each as wide as the longest text of its batch.

Shapes: B batch.
"""

import math

import keras
import numpy as np
import tensorflow as tf


def column_batches(x, batch_size, steps=None):
    """Batches of columns from what `Pipeline.predict` takes: a dict of columns [B], or a source of such batches.

    Yields:
        dicts of columns (or columns alone), at most `steps` of them.
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
    """How many `column_batches` yields; None where only reading them would tell."""
    if isinstance(x, dict):
        count = math.ceil(int(tf.shape(next(iter(x.values())))[0]) / batch_size)
    elif isinstance(x, keras.utils.PyDataset):
        count = len(x)
    else:
        count = int(x.cardinality()) if isinstance(x, tf.data.Dataset) else -1  # below 0: not known
    return steps if count < 0 else count if steps is None else min(count, steps)


def join_padded(answers, pad_values):
    """Joins several dicts of arrays into one: the rows in order, each array padded to the widest.

    Args:
        answers: list of dicts of NumPy arrays.
        pad_values: {name: padding value}, for the names whose width varies.

    Example::

        join_padded([{"tags": [["O"]]}, {"tags": [["O", "O"]]}], {"tags": ""})["tags"]  # [["O", ""], ["O", "O"]]
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
