"""Finds labels that are not a class, or not on or off, before a model is trained or evaluated on them.

Shapes: B batch, S sequence, C choices, N labels.
"""

from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from kbert.models.check_inputs import checked_inputs, complete_inputs, ids_outside
from kbert.optim.cross_entropy import broadcast_weights, on_or_off, wrong_labels
from kbert.optim.distillation_loss import DistillationLoss
from kbert.optim.losses import ClassificationLoss, MultiLabelLoss, SpanLoss

if TYPE_CHECKING:
    import tensorflow as tf

    from kbert.models.bert_model import BertModel


_CLASS_LOSSES = (ClassificationLoss, keras.losses.SparseCategoricalCrossentropy)


def check_targets(model: "BertModel", inputs: Any, labels: Any, weights: Any = None) -> None:
    """Raises a ValueError for labels in arrays that are not what the loss of their output takes.

    That is a class, for a multi-label classifier 0 or 1 (or a probability) for each label, for a score a finite number.
    With kbert's losses a label may be -1, "no label". A label of weight 0 may be anything. Labels for other losses are
    not checked. The inputs are needed because their S positions or C choices are the classes of some outputs.
    """
    for name, values, weight, loss in _targets(model, labels, weights):
        if not isinstance(values, np.ndarray) and not keras.ops.is_tensor(values):
            continue
        values = keras.ops.convert_to_numpy(values)
        if values.dtype.kind not in "biuf":
            raise ValueError(f"{_expected(model, name, '', loss)} Received: an array of {values.dtype}")
        _check_shape(model, name, values, loss)
        is_wrong, values, number = _wrong(model, name, inputs, values, weight, loss)
        is_wrong = keras.ops.convert_to_numpy(is_wrong)
        if is_wrong.any():
            index = tuple(np.argwhere(is_wrong)[0].tolist())
            raise ValueError(
                f"{_expected(model, name, number, loss)} Received: {values[index]} in row {index[0]}; "
                f"{int(is_wrong.sum())} of {is_wrong.size} labels are outside."
            )


def checked_dataset(model: "BertModel", dataset: "tf.data.Dataset") -> "tf.data.Dataset":
    """A tf.data.Dataset that checks its batches like `check_targets`, raising InvalidArgumentError as it is read.

    Token ids and segments are checked too, since the graph of the model cannot raise errors under XLA.
    """
    import tensorflow as tf

    @tf.autograph.experimental.do_not_convert
    def check(inputs, labels, *weights):
        checked_inputs(model, inputs)
        named = inputs if isinstance(inputs, dict) else {"token_ids": inputs}
        for message, ids, outside in ids_outside(model, named):
            tf.debugging.Assert(~tf.reduce_any(outside), [message, tf.boolean_mask(ids, outside)], summarize=5)
        for name, values, weight, loss in _targets(model, labels, *weights):
            _check_shape(model, name, values, loss)
            is_wrong, values, number = _wrong(model, name, inputs, values, weight, loss)
            wrong = tf.boolean_mask(values, is_wrong)
            message = f"{_expected(model, name, number if isinstance(number, int) else '', loss)} Received:"
            tf.debugging.Assert(tf.logical_not(tf.reduce_any(is_wrong)), [message, wrong], summarize=5)
        return inputs, labels, *weights

    is_labelled = isinstance(dataset.element_spec, tuple) and len(dataset.element_spec) in (2, 3)
    return dataset.map(check) if is_labelled and keras.backend.backend() == "tensorflow" else dataset


def _of_output(part, name, num_outputs):
    if isinstance(part, dict):
        return part.get(name)
    return part if num_outputs == 1 else None


def _targets(model, labels, weights=None):
    """Yields (output, labels, weights, loss) of the outputs whose labels can be checked."""
    losses = getattr(model, "loss", None)
    outputs = sorted(model.output)
    if isinstance(losses, (list, tuple)):
        losses = dict(zip(outputs, losses, strict=False))  # in the order in which Keras takes a dict's entries
    for name in outputs:
        loss, values, weight = (_of_output(part, name, len(outputs)) for part in (losses, labels, weights))
        is_score = name == "score" and loss is not None and not isinstance(loss, DistillationLoss)
        is_known = is_score or isinstance(loss, (*_CLASS_LOSSES, MultiLabelLoss))
        if values is not None and is_known:
            yield name, values, weight, loss


def _check_shape(model, name, values, loss):
    """Raises a ValueError for labels with more or fewer axes than the loss takes, or another number of labels."""
    shape, logits = values.shape, model.output[name].shape
    if getattr(shape, "rank", 0) is None or not isinstance(loss, (*_CLASS_LOSSES, MultiLabelLoss)):
        return
    if isinstance(loss, MultiLabelLoss):
        is_right = len(shape) == len(logits) and shape[-1] in (None, logits[-1])
    else:
        more = (1, 2) if isinstance(loss, SpanLoss) else (1,)  # classes as a column; a position with its row's length
        is_right = len(shape) == len(logits) - 1 or (len(shape) == len(logits) and shape[-1] in (None, *more))
    if not is_right:
        is_one_hot = not isinstance(loss, MultiLabelLoss) and len(shape) == len(logits) and shape[-1] == logits[-1]
        hint = '. One-hot? Give labels.argmax(axis=-1), or compile with loss="categorical_crossentropy"'
        raise ValueError(
            f"{_expected(model, name, logits[-1], loss)} Received: labels of shape {tuple(shape)}"
            + (hint if is_one_hot else "")
        )


def _wrong(model, name, inputs, values, weight, loss):
    """(where labels are wrong, the labels, the number of classes). A score has None classes."""
    values = keras.ops.convert_to_tensor(values)
    if name == "score":
        is_wrong = keras.ops.logical_not(keras.ops.isfinite(keras.ops.cast(values, "float32")))
        return is_wrong, values, None
    if isinstance(loss, MultiLabelLoss):
        return on_or_off(values, values, weight)[-1], values, model.output[name].shape[-1]
    inputs = complete_inputs(model, inputs)
    number = limit = model.output[name].shape[-1] or keras.ops.shape(inputs["token_ids"])[1]  # N, or S or C
    if isinstance(loss, SpanLoss) and len(values.shape) == 2 and values.shape[1] == 2:
        values, limit = values[:, 0], values[:, 1]
    if not isinstance(loss, ClassificationLoss):  # Keras' own loss, which fails on such a label whatever its weight
        return wrong_labels(values, limit, ignored=loss.get_config()["ignore_class"]), values, number
    weight = broadcast_weights(weight, values)
    is_wrong = wrong_labels(values, limit, weight)
    if model.task == "multiple_choice":
        is_wrong = keras.ops.logical_or(is_wrong, _is_absent(inputs["padding_mask"], values, weight))
    return is_wrong, values, number


def _is_absent(padding_mask, values, weight):
    """bool, for each label: whether it is a choice without tokens."""
    ops = keras.ops
    is_there = ops.any(ops.cast(padding_mask, "bool"), axis=-1)  # [B, C]
    last = ops.shape(is_there)[1] - 1
    choice = ops.clip(ops.reshape(ops.cast(values, "int32"), (-1, 1)), 0, last)
    is_chosen_there = ops.reshape(ops.take_along_axis(is_there, choice, axis=1), ops.shape(values))
    return ops.logical_and(ops.logical_not(is_chosen_there), ops.logical_and(values >= 0, weight != 0))


def _expected(model, name, number, loss):
    if name == "score":
        kind = "finite numbers"
    elif isinstance(loss, MultiLabelLoss):
        kind = f"0 or 1 for each label of a text, [B, {number or 'N'}]"
    else:
        kind = f"classes, 0 to {number - 1}" if number else "class numbers"
    if model.task == "classification" and not isinstance(loss, MultiLabelLoss):
        kind += ", or of a pipeline its label strings"
    kind += " of choices that are there" if model.task == "multiple_choice" else ""
    return f"{type(model).__name__}: expected the labels of `{name}` to be {kind}."
