"""Class weights as sample weights: Keras accepts no `class_weight` if labels are keyed by output.

Shapes: B batch, S sequence, N labels.
"""

import keras
import numpy as np


def apply_class_weight(model, x, y, sample_weight, class_weight):
    """The arguments of `fit` with the weights of the classes in the sample weights.

    Args:
        model: a kbert model with one output for classes.
        x: the inputs, or a tf.data.Dataset of (inputs, labels) or (inputs, labels, weights).
        y: labels [B] or [B, S], class numbers, or a dict of them by output; None for a dataset.
        sample_weight: as `fit` takes it; multiplied by the weights of the classes.
        class_weight: dict of class number → weight; other classes have weight 1.

    Returns:
        (x, sample_weight).

    Raises:
        ValueError: several outputs, no classes, an unknown class, or a weight that is negative or not finite.
    """
    table = _table(model, class_weight)
    if hasattr(x, "element_spec") and hasattr(x, "map"):
        return x.map(lambda *batch: _weighted(model, table, *batch)), sample_weight
    if y is None:
        raise ValueError(f"{type(model).__name__}: `class_weight` needs labels. Received: no labels")
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
    given = sample_weight.get(name) if isinstance(sample_weight, dict) else sample_weight
    if given is not None:
        weights = weights * keras.ops.cast(given, "float32")
    return inputs, labels, {name: weights} if isinstance(labels, dict) else weights


def _table(model, class_weight):
    owner = type(model).__name__
    if len(model.output) != 1 or not next(iter(model.output.values())).shape[-1]:
        raise ValueError(f"{owner}: `class_weight` is for models with one output for classes. Received: {class_weight}")
    number = next(iter(model.output.values())).shape[-1]
    table = np.ones(number, "float32")
    for key, weight in dict(class_weight).items():
        if isinstance(key, bool) or not isinstance(key, (int, np.integer)) or not 0 <= key < number:
            raise ValueError(f"{owner}: expected `class_weight` for the classes 0 to {number - 1}. Received: {key!r}")
        if not 0 <= float(weight) < float("inf"):
            raise ValueError(f"{owner}: expected a weight of at least 0 for class {key}. Received: {weight!r}")
        table[key] = weight
    return table
