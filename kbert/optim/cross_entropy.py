"""Cross-entropy of integer labels, label by label, in float32: what the losses and the metrics share.

A loss and a metric that call this on the same logits build the same operations, which TensorFlow's graph optimiser and
XLA then compute once.

Glossary: B batch, P predictions, N labels or vocabulary; "..." is any number of axes.
"""

import keras
from keras import ops


def cross_entropy(labels, logits, weights=None):
    """Negative log-likelihood of each label, and the weight it counts with.

    Args:
        labels: integers [...]; one outside [0, N) marks a place without a label. [..., 1] is taken as [...].
        logits: floats [..., N].
        weights: floats [...], or with fewer trailing axes than the labels, or None for ones.

    Returns:
        (nll, weights), both float32 [...], the weights 0 and the nll finite where there is no label.
    """
    logits = ops.cast(logits, "float32")  # [..., N]
    labels, weights = labels_and_weights(labels, logits, weights)
    return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True), weights


def labels_and_weights(labels, logits, weights=None):
    """Labels inside [0, N) as int32 [...], and float32 weights [...] that are 0 where the label given was outside."""
    num_labels = ops.shape(logits)[-1]  # positions of a batch that was cut to its longest row are no static number
    labels = ops.cast(labels, "int32")
    if len(labels.shape) == len(logits.shape) and labels.shape[-1] == 1:
        labels = ops.squeeze(labels, axis=-1)
    valid = ops.logical_and(labels >= 0, labels < num_labels)  # [...]
    labels = ops.where(valid, labels, 0)
    return labels, broadcast_weights(weights, labels) * ops.cast(valid, "float32")


def without_padding(labels, logits):
    """Positions [B] and logits [B, S], padding's at -1e9, from [B, 2] (position, length); [B] is no change."""
    if len(labels.shape) < 2 or labels.shape[-1] != 2:
        return labels, logits
    labels, logits = ops.cast(labels, "int32"), ops.cast(logits, "float32")
    is_token = ops.arange(ops.shape(logits)[-1], dtype="int32") < labels[:, 1:]  # [B, S]
    return labels[:, 0], ops.where(is_token, logits, -1e9)


def broadcast_weights(weights, values):
    """Weights as float32 of the shape of `values`; missing trailing axes are repeated, None is ones."""
    if weights is None:
        return ops.ones(ops.shape(values), "float32")
    weights = ops.cast(weights, "float32")
    if len(weights.shape) == len(values.shape) + 1 and weights.shape[-1] == 1:
        weights = ops.squeeze(weights, axis=-1)
    while len(weights.shape) < len(values.shape):
        weights = ops.expand_dims(weights, -1)
    return ops.broadcast_to(weights, ops.shape(values))


def check_labels(labels, num_labels, name="labels"):
    """Raise a ValueError unless every label is an integer in [0, num_labels); for data, before training starts.

    (A loss takes a label outside the range as "no label" and leaves it out, so that -1 can mark places to ignore.)
    """
    labels = keras.ops.convert_to_numpy(labels)
    if labels.dtype.kind not in "iu":
        raise ValueError(f"check_labels: `{name}` must be integers. Received: dtype {labels.dtype}")
    outside = labels[(labels < 0) | (labels >= num_labels)]
    if outside.size:
        raise ValueError(
            f"check_labels: `{name}` must be in [0, {num_labels}). "
            f"Received: {sorted(set(outside.tolist()))[:5]} among {outside.size} labels outside"
        )
