"""Label strings → the numbers that a model is trained on.

Shapes: B batch, N labels.
"""

import math
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from kbert.models.class_weights import class_factors


def label_ids(values, labels: Sequence[str] | None, multi_label: bool = False):
    """The numbers of label strings; numbers stay as they are.

    Args:
        values: strings or numbers [B]: a list, an array or a tensor (also a symbolic one, in a tf.data.Dataset); with
            `multi_label` a list of strings for each row, or numbers [B, N], and a tensor may be ragged or padded with
            ""; or a dict of these by output.
        labels: the N strings in the order of the logits; None: a model without labels.
        multi_label: whether a row has any number of labels.

    Returns:
        Class numbers, int32 [B]; with `multi_label` int32 [B, N] of 0 and 1; or numbers as they were given.

    Raises:
        ValueError: a string that is not one of the labels; a list of labels where one is expected, or one where a list
            is; the message names the row.
    """
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {name: label_ids(value, labels, multi_label) for name, value in values.items()}
    if isinstance(values, tf.RaggedTensor) and values.dtype == tf.string:
        values = values.to_tensor("")
    if isinstance(values, tf.Tensor):
        return _tensor_ids(values, labels, multi_label) if values.dtype == tf.string else values
    values = values if isinstance(values, list | tuple) else np.asarray(values)
    if isinstance(values, np.ndarray) and values.dtype.kind not in "USO":
        return values
    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in values]
    leaves = keras.tree.flatten(rows)
    if not any(isinstance(leaf, str | bytes) or leaf is None for leaf in leaves) and (leaves or not rows):
        return _numbers(values)
    index = {label: number for number, label in enumerate(_known(labels, next(iter(leaves), "")))}
    if not multi_label:
        return np.array([_number(label, row, index) for row, label in enumerate(rows)], "int32")
    is_on = np.zeros((len(rows), len(index)), "int32")
    for row, some in enumerate(rows):
        if not isinstance(some, list | tuple):
            raise ValueError(f"Pipeline: row {row}: expected a list of the labels {list(index)}. Received: {some!r}")
        is_on[row, [_number(label, row, index) for label in some]] = 1
    return is_on


def class_weight_ids(class_weight, labels: Sequence[str] | None, ids=None, validation_split: float | None = None):
    """`class_weight` of `kbert.Pipeline.fit` by class number.

    Args:
        class_weight: as `kbert.models.class_weights.class_factors` takes it.
        labels: of the model; None: it has none, and refuses class weights itself.
        ids: `label_ids` of the texts; None: of a dataset.
        validation_split: the share of the texts, the last ones, that are not learned.

    Raises:
        ValueError: what `class_factors` refuses.
    """
    if labels is None:
        return class_weight
    ids = ids.get("logits") if isinstance(ids, Mapping) else ids
    if ids is not None:
        ids = keras.ops.convert_to_numpy(ids)
        ids = ids[: math.floor(len(ids) * (1 - (validation_split or 0)))]
    return dict(enumerate(class_factors(class_weight, len(labels), labels, ids=ids, owner="Pipeline").tolist()))


def _numbers(values):
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError("Pipeline: expected labels as numbers [B, ...]. Received: rows of unequal lengths") from error


def _number(label, row, index):
    if isinstance(label, list | tuple) and len(label) == 1:
        (label,) = label
    label = label.decode("utf-8", "replace") if isinstance(label, bytes) else label
    label = str(label) if isinstance(label, str) else label  # NumPy's strings show their type
    if not isinstance(label, str) or label not in index:
        raise ValueError(f"Pipeline: row {row}: expected one of the labels {list(index)}. Received: {label!r}")
    return index[label]


def _known(labels, value):
    if labels is None:
        raise ValueError(f"Pipeline: expected numbers, as this model has no labels. Received: {value!r}")
    return labels


def _tensor_ids(values, labels, multi_label):
    known = tf.constant(_known(labels, "strings"))
    if multi_label and len(values.shape) != 2:
        raise ValueError(f"Pipeline: expected a list of labels for each row. Received: strings {tuple(values.shape)}")
    same = values[..., tf.newaxis] == known  # [B, N], or [B, labels of a row, N]
    is_known = tf.reduce_any(same, axis=-1)
    if multi_label:
        is_known |= values == ""
    message = f"Pipeline: expected one of the labels {list(labels)}. Received:"
    check = tf.raw_ops.Assert(
        condition=tf.reduce_all(is_known), data=[message, tf.boolean_mask(values, ~is_known)], summarize=5
    )
    with tf.control_dependencies([] if check is None else [check]):
        if multi_label:
            return tf.cast(tf.reduce_any(same, axis=1), tf.int32)
        return tf.argmax(tf.cast(same, tf.int32), axis=-1, output_type=tf.int32)
