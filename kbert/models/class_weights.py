"""Class weights as sample weights: Keras accepts no `class_weight` if labels are keyed by output.

Shapes: B batch, S sequence, N labels.
"""

import numbers
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from kbert.optim.cross_entropy import broadcast_weights

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel


def class_factors(
    class_weight: Mapping[int | str, float] | str,
    num_labels: int,
    labels: Sequence[str] | None = None,
    *,
    ids: np.ndarray | None = None,
    owner: str,
) -> np.ndarray:
    """The factor of each class in the loss, float32 [N], 1 for classes that `class_weight` does not name.

    `class_weight` is {label or class number: factor}, or "balanced", which gives every class the same total weight.
    "balanced" needs `ids`, the class numbers [B] of all that is learned, -1 for none. `labels` are the N strings in the
    order of the logits. With None only class numbers are known. A number that is also the label of another class is an
    error. `owner` is what messages begin with.
    """
    if ids is not None and ids.ndim != 1:
        raise ValueError(
            f"{owner}: `class_weight` is for texts with one label each. Received: labels of shape {ids.shape}"
        )
    if isinstance(class_weight, str) and class_weight == "balanced":
        return _balanced(num_labels, ids, owner)
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f'{owner}: expected `class_weight` as {{label: factor}} or "balanced". Received: {class_weight!r}. Pass '
            "factors in the order of the classes as dict(enumerate(factors))"
        )
    factors, seen = np.ones(num_labels, "float32"), set()
    for key, factor in class_weight.items():
        number = _class_number(key, factor, num_labels, labels, owner)
        if not isinstance(factor, numbers.Real) or not 0 <= factor < float("inf"):
            raise ValueError(f"{owner}: expected `class_weight` of at least 0 for {key!r}. Received: {factor!r}")
        if number in seen:
            raise ValueError(f"{owner}: expected one `class_weight` for class {number}. Received: {class_weight}")
        seen.add(number)
        factors[number] = factor
    return factors


def _balanced(num_labels, ids, owner):
    if ids is None:
        raise ValueError(
            f'{owner}: class_weight="balanced" is for kbert.finetune, and for pipeline.fit with labels in arrays or '
            "lists. Here give {class: factor}."
        )
    counts = np.bincount(ids[(ids >= 0) & (ids < num_labels)].astype("int64"), minlength=num_labels)
    return (counts.sum() / (max(np.count_nonzero(counts), 1) * np.maximum(counts, 1))).astype("float32")


def _class_number(key, factor, num_labels, labels, owner):
    listed = [] if labels is None else list(labels)
    if isinstance(key, str) and key in listed:
        return listed.index(key)
    if key in labels_of_other_classes(listed):
        raise ValueError(
            f"{owner}: expected strings as keys of `class_weight`: a number is a class from 0, and {key} is not that "
            f'of the label {str(key)!r}; write {{"{key}": {factor!r}}}. Received: {key!r}'
        )
    if isinstance(key, bool) or not isinstance(key, numbers.Integral) or not 0 <= key < num_labels:
        names = f"the labels {listed}, or " if listed else ""
        raise ValueError(
            f"{owner}: expected `class_weight` for {names}the classes 0 to {num_labels - 1}. Received: {key!r}"
        )
    return int(key)


def labels_of_other_classes(labels: Sequence[str]) -> dict[int, str]:
    """The numbers that may mean a class or a label: number → the label so called, where that label has another number.

    ["0", "1", "3"] has {3: "3"}.
    """
    numbered = ((label, number) for number, label in enumerate(labels) if label.removeprefix("-").isdecimal())
    return {int(label): label for label, number in numbered if str(int(label)) == label and int(label) != number}


def apply_class_weight(
    model: "BertModel", x: Any, y: Any, sample_weight: Any, class_weight: Mapping[int, float]
) -> tuple[Any, Any]:
    """The inputs and sample weights of a training, with the class weights multiplied into the sample weights.

    The model has one output for classes. `x` may be a tf.data.Dataset of (inputs, labels) or (inputs, labels, weights),
    with `y` None. Else `y` are class numbers [B] or [B, S], or a dict of them by output.
    """
    table = _table(model, class_weight)
    if hasattr(x, "element_spec") and hasattr(x, "map"):
        return x.map(lambda *batch: _weighted(model, table, *batch)), sample_weight
    if y is None:
        raise ValueError(
            f"{type(model).__name__}: `class_weight` needs labels in arrays, or a tf.data.Dataset. Received: {x!r:.100}"
        )
    return x, _weighted(model, table, x, y, sample_weight)[2]


def _weighted(model, table, inputs, labels, sample_weight=None):
    (name,) = model.output
    ids = labels[name] if isinstance(labels, dict) else labels
    if isinstance(ids, (list, tuple)):
        ids = np.asarray(ids)
    if len(ids.shape) >= len(model.output[name].shape):
        raise ValueError(
            f"{type(model).__name__}: `class_weight` needs class numbers, one for each row of logits. "
            f"Received: labels of shape {tuple(ids.shape)}"
        )
    ids = keras.ops.cast(ids, "int32")
    weights = keras.ops.take(table, keras.ops.clip(ids, 0, len(table) - 1), axis=0)  # any weight does for -1, no label
    own_weights = sample_weight.get(name) if isinstance(sample_weight, dict) else sample_weight
    if own_weights is not None:
        weights = weights * broadcast_weights(own_weights, ids)
    return inputs, labels, {name: weights} if isinstance(labels, dict) else weights


def _table(model, class_weight):
    owner = type(model).__name__
    if len(model.output) != 1 or not next(iter(model.output.values())).shape[-1]:
        raise ValueError(f"{owner}: `class_weight` is for models with one output for classes. Received: {class_weight}")
    return class_factors(class_weight, next(iter(model.output.values())).shape[-1], owner=owner)
