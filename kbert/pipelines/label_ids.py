"""Label strings → the class numbers that a model is trained on.

Shapes: B batch, N labels.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf


def label_ids(values, labels: Sequence[str] | None):
    """Class numbers of label strings; numbers stay as they are.

    Args:
        values: strings or numbers [B]: a list, an array or a tensor (also a symbolic one, in a tf.data.Dataset); or a
            dict of these by output.
        labels: the N strings in the order of the logits; None: a model without labels.

    Raises:
        ValueError: a string that is not one of the labels; the message names the row.
    """
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {name: label_ids(value, labels) for name, value in values.items()}
    if isinstance(values, tf.Tensor):
        return _tensor_ids(values, labels) if values.dtype == tf.string else values
    array = np.asarray(values)
    if array.dtype.kind not in "USO":
        return array
    known = _known(labels, str(array.ravel()[0]) if array.size else "")
    numbers = {label: number for number, label in enumerate(known)}
    ids = np.zeros(array.shape, "int32")
    for place, value in np.ndenumerate(array):
        value = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        value = str(value) if isinstance(value, str) else value  # NumPy's strings show their type
        if value not in numbers:
            raise ValueError(f"Pipeline: row {place[0]}: expected one of the labels {list(known)}. Received: {value!r}")
        ids[place] = numbers[value]
    return ids


def class_weight_ids(class_weight: Mapping[Any, float], labels: Sequence[str] | None):
    """`class_weight` by class number, whether it is given by label or by number."""
    strings = [key for key in class_weight if isinstance(key, str)]
    if strings:
        known = _known(labels, strings[0])
        if unknown := sorted(set(strings) - set(known)):
            raise ValueError(f"Pipeline: expected `class_weight` for the labels {list(known)}. Received: {unknown}")
    return {labels.index(key) if isinstance(key, str) else key: weight for key, weight in class_weight.items()}


def _known(labels, value):
    if labels is None:
        raise ValueError(f"Pipeline: expected numbers, as this model has no labels. Received: {value!r}")
    return labels


def _tensor_ids(values, labels):
    known = tf.constant(_known(labels, "strings"))
    same = values[..., tf.newaxis] == known  # [B, N]
    is_known = tf.reduce_any(same, axis=-1)
    message = f"Pipeline: expected one of the labels {list(labels)}. Received:"
    check = tf.raw_ops.Assert(
        condition=tf.reduce_all(is_known), data=[message, tf.boolean_mask(values, ~is_known)], summarize=5
    )
    with tf.control_dependencies([] if check is None else [check]):
        return tf.argmax(tf.cast(same, tf.int32), axis=-1, output_type=tf.int32)
