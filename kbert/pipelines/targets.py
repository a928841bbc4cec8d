"""Labels and weights of texts → the numbers that a model is trained on.

Shapes: B batch, N labels, W windows.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from kbert.checks import shown
from kbert.models.class_weights import class_factors, labels_of_other_classes
from kbert.pipelines.settings import default_labels
from kbert.preprocessing.strings import once_true


def label_ids(values: Any, labels: Sequence[str] | None, multi_label: bool = False) -> Any:
    """The numbers of label strings, int32 [B], with `multi_label` int32 [B, N] of 0 and 1. Numbers stay as they are.

    `values` are strings or numbers [B]: a list, an array or a tensor (also a symbolic one, in a tf.data.Dataset), or a
    dict of these by output. With `multi_label` they are a list of strings for each row, or numbers [B, N], and a tensor
    may be ragged or padded with "". `labels` None: of a model without labels.
    """
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {name: label_ids(value, labels, multi_label) for name, value in values.items()}
    if isinstance(values, tf.RaggedTensor) and values.dtype == tf.string:
        values = values.to_tensor("")
    if isinstance(values, tf.Tensor):
        is_string = values.dtype == tf.string
        return _tensor_ids(values, labels, multi_label) if is_string else _class_numbers(values, labels, multi_label)
    values = values if isinstance(values, list | tuple) else np.asarray(values)
    if isinstance(values, np.ndarray) and values.dtype.kind not in "USO":
        return _class_numbers(values, labels, multi_label)
    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in values]
    leaves = keras.tree.flatten(rows)
    if not any(isinstance(leaf, str | bytes) or leaf is None for leaf in leaves) and (leaves or not rows):
        return _class_numbers(_numbers(values), labels, multi_label)
    index = {label: number for number, label in enumerate(_known(labels, next(iter(leaves), "")))}
    if not multi_label:
        return np.array([_number(label, row, index) for row, label in enumerate(rows)], "int32")
    is_on = np.zeros((len(rows), len(index)), "int32")
    for row, labels_of_row in enumerate(rows):
        if not isinstance(labels_of_row, list | tuple):
            raise ValueError(
                f"Pipeline: row {row}: expected a list of the labels {list(index)}. Received: {shown(labels_of_row)}"
            )
        is_on[row, [_number(label, row, index) for label in labels_of_row]] = 1
    return is_on


def class_weight_ids(
    class_weight: Mapping[Any, float] | Literal["balanced"] | None,
    labels: Sequence[str] | None,
    ids: Any = None,
    validation_split: float | None = None,
) -> Mapping[Any, float] | Literal["balanced"] | None:
    """`class_weight` of `kbert.Pipeline.fit` by class number.

    `ids` are the `label_ids` of the texts, None for a dataset. The last `validation_split` of them are not learned.
    """
    if labels is None:
        return class_weight  # the model refuses them
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


def _class_numbers(values, labels, multi_label):
    """The numbers as they are, unless one of them is the label of another class."""
    others = {} if multi_label or labels is None else labels_of_other_classes(labels)
    if not others or (getattr(values.shape, "rank", 0) is not None and tuple(values.shape[1:]) not in ((), (1,))):
        return values  # in rows: one-hot, or probabilities
    expected = "expected the labels as strings: a number is a class from 0, and"
    if isinstance(values, tf.Tensor):
        numbers = tf.constant([*others], tf.float64)
        is_right = tf.reduce_all(tf.cast(values, tf.float64)[..., tf.newaxis] != numbers, axis=-1)
        return _asserted(values, values, is_right, f"{expected} {[*others]} are labels of other classes")
    wrong = np.flatnonzero(np.isin(values, [*others]))
    if wrong.size:
        number = int(values.flat[wrong[0]])
        raise ValueError(
            f"Pipeline: row {wrong[0]}: {expected} {number} is not that of the label {others[number]!r}; write "
            f'"{number}". Received: {number}'
        )
    return values


def _number(label, row, index):
    if isinstance(label, list | tuple) and len(label) == 1:
        (label,) = label
    label = label.decode("utf-8", "replace") if isinstance(label, bytes) else label
    label = str(label) if isinstance(label, str) else label  # NumPy's strings show their type
    if not isinstance(label, str) or label not in index:
        raise ValueError(f"Pipeline: row {row}: expected one of {_shown(index)}. Received: {shown(label)}")
    return index[label]


def _known(labels, value):
    if labels is None:
        raise ValueError(f"Pipeline: expected numbers, as this model has no labels. Received: {shown(value)}")
    return labels


def _tensor_ids(values, labels, multi_label):
    names = tf.constant(_known(labels, "strings"))
    if multi_label and len(values.shape) != 2:
        raise ValueError(f"Pipeline: expected a list of labels for each row. Received: strings {tuple(values.shape)}")
    same = values[..., tf.newaxis] == names  # [B, N], or [B, labels of a row, N]
    is_known = tf.reduce_any(same, axis=-1)
    if multi_label:
        is_known |= values == ""
    same = _asserted(same, values, is_known, f"expected one of {_shown(labels)}")
    if multi_label:
        return tf.cast(tf.reduce_any(same, axis=1), tf.int32)
    return tf.argmax(tf.cast(same, tf.int32), axis=-1, output_type=tf.int32)


def _asserted(result, values, is_right, expected):
    """The result, with an error where the values are not right, once they are known."""
    wrong = tf.boolean_mask(values, ~is_right)
    return once_true(tf.reduce_all(is_right), result, f"Pipeline: {expected}. Received:", wrong)


def _shown(labels):
    are_defaults = list(labels) in default_labels(len(labels))
    hint = ", default names; kbert.build_pipeline(model, labels=[...]) gives others" if are_defaults else ""
    return f"the labels {list(labels)}{hint}"


def values_of_windows(values: Any, window_row: tf.Tensor) -> Any:
    """The value of each window's text, from numbers [B, ...], also in a dict by output, or None."""
    if isinstance(values, list | tuple):
        values = np.asarray(values)
    return keras.tree.map_structure(lambda part: None if part is None else tf.gather(part, window_row), values)


def check_rows(columns: Mapping[str, tf.Tensor], *labels) -> None:
    """Raises a ValueError if labels or weights are not as many as the texts, where both numbers are known."""
    rows = next(iter(columns.values())).shape[0]
    for part in keras.tree.flatten(labels):
        count = rows if part is None or not part.shape else part.shape[0]
        if None not in (rows, count) and rows != count:
            raise ValueError(f"Pipeline: expected a label and a weight for each of {rows} texts. Received: {count}")


def split_texts(columns: Mapping[str, tf.Tensor], fraction: float, *labels) -> tuple:
    """(columns, *labels) of the first texts, and of the last ones for validation, as Keras splits rows."""
    if not 0 < fraction < 1:
        raise ValueError(f"Pipeline: `validation_split` must be between 0 and 1. Received: {fraction!r}")
    check_rows(columns, *labels)
    size = int(next(iter(columns.values())).shape[0])
    at = math.floor(size * (1 - fraction))
    rows = np.arange(size)
    return tuple(
        tuple(values_of_windows(values, part) for values in (columns, *labels)) for part in (rows[:at], rows[at:])
    )
