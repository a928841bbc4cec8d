"""Labels and weights of texts → those of the windows that the texts are cut into.

Shapes: B texts, W windows.
"""

import math

import keras
import numpy as np
import tensorflow as tf


def values_of_windows(values, window_row):
    """The value of each window's text.

    Args:
        values: numbers [B, ...], also in a dict by output; or None.
        window_row: int32 [W], of `kbert.preprocessing.DocumentPreprocessor`.
    """
    if isinstance(values, list | tuple):
        values = np.asarray(values)
    return keras.tree.map_structure(lambda some: None if some is None else tf.gather(some, window_row), values)


def check_rows(columns, *labels):
    """Raises a ValueError if labels or weights are not as many as the texts, where both numbers are known.

    Args:
        columns: dict of strings [B].
        *labels: as for `values_of_windows`.
    """
    rows = next(iter(columns.values())).shape[0]
    for some in keras.tree.flatten(labels):
        count = rows if some is None or not some.shape else some.shape[0]
        if None not in (rows, count) and rows != count:
            raise ValueError(f"Pipeline: expected a label and a weight for each of {rows} texts. Received: {count}")


def split_texts(columns, share, *labels):
    """The first texts, and the last ones for validation: as Keras splits rows, before texts become windows.

    Args:
        columns: dict of strings [B].
        share: float, `validation_split` of `keras.Model.fit`.
        *labels: labels and weights, as for `values_of_windows`.

    Returns:
        ((columns, *labels) of the first texts, (columns, *labels) of the last ones).
    """
    if not 0 < share < 1:
        raise ValueError(f"Pipeline: `validation_split` must be between 0 and 1. Received: {share!r}")
    check_rows(columns, *labels)
    size = int(next(iter(columns.values())).shape[0])
    at = math.floor(size * (1 - share))
    rows = np.arange(size)
    return tuple(tuple(values_of_windows(some, part) for some in (columns, *labels)) for part in (rows[:at], rows[at:]))
