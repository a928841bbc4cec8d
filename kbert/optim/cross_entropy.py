"""Cross-entropy of integer labels, label by label, in float32, which the losses and the metrics share.

A loss and a metric that call this on the same logits build the same operations, which TensorFlow's graph optimiser and
XLA then compute once.

Shapes: B batch, S sequence, P predictions, N labels or vocabulary; "..." is any number of axes.
"""

import keras
from keras import ops

from kbert.keras_compat import Tensor, custom_gradient
from kbert.xla import compiled, is_worth_compiling

IGNORED_LABEL = -1  # "no label here": ignored by losses and metrics
_IMPOSSIBLE = 1e8  # only a class with a masked logit (-1e9) has a larger nll: an absent choice, a position of padding
_COMPILED_FROM = 2**17  # logits
_COMPILED_CLASSES = 1024  # from as many N on: the logits of fewer often differ in shape from batch to batch


def cross_entropy(labels: Tensor, logits: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Negative log-likelihood and weight of each label, both float32 [...].

    `labels` are integers [...], -1 where there is none, and [..., 1] is taken as [...]. `logits` are floats [..., N].
    `weights` are floats [...], or with fewer trailing axes than the labels, or None for ones.

    Where there is no label the weight is 0 and the nll finite. The nll is NaN where a label of non-zero weight is
    neither -1 nor in [0, N), or is a class with a masked logit (an absent choice), so that no loss hides it.
    """
    logits = ops.cast(logits, "float32")  # [..., N]
    labels, weights, is_wrong = labels_and_weights(labels, logits, weights)
    nll = _negative_log_likelihood(labels, logits)
    is_wrong = ops.logical_or(is_wrong, ops.logical_and(nll > _IMPOSSIBLE, weights != 0))
    return ops.where(is_wrong, float("nan"), nll), weights


def _negative_log_likelihood(labels, logits):
    if (logits.shape[-1] or 0) >= _COMPILED_CLASSES and is_worth_compiling(logits, _COMPILED_FROM):
        return _compiled_nll(logits, labels)
    return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


def _nll_gradient(upstream, logits, labels, log_normaliser):
    return (_nll_backward(labels, logits, log_normaliser, upstream),)


@custom_gradient(_nll_gradient)
def _compiled_nll(logits, labels):
    """Two kernels of XLA, which leave out what TensorFlow's writes in between: a third of the time."""
    values, log_normaliser = _nll_forward(labels, logits)
    return values, (log_normaliser,)


@compiled
def _nll_forward(labels, logits):
    import tensorflow as tf

    highest = tf.reduce_max(logits, axis=-1, keepdims=True)
    log_normaliser = tf.math.log(tf.reduce_sum(tf.exp(logits - highest), axis=-1)) + highest[..., 0]  # [...]
    return log_normaliser - tf.gather(logits, labels, batch_dims=len(labels.shape)), log_normaliser


@compiled
def _nll_backward(labels, logits, log_normaliser, upstream):
    import tensorflow as tf

    probs = tf.exp(logits - log_normaliser[..., None])
    is_label = tf.range(tf.shape(logits)[-1]) == labels[..., None]
    return tf.where(is_label, probs - 1.0, probs) * upstream[..., None]


def labels_and_weights(labels: Tensor, logits: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Integer labels and their weights, as a loss or metric uses them.

    Returns (labels int32 [...], all of them in [0, N); weights float32 [...], 0 where the label given was -1; is_wrong
    bool [...], see `wrong_labels`).
    """
    logits = ops.convert_to_tensor(logits)
    num_labels = ops.shape(logits)[-1]  # not static for the positions of a batch that was trimmed to its longest row
    labels = _comparable(labels)
    if len(labels.shape) == len(logits.shape) and labels.shape[-1] == 1:
        labels = ops.squeeze(labels, axis=-1)
    weights = broadcast_weights(weights, labels) * ops.cast(labels != IGNORED_LABEL, "float32")
    is_wrong = wrong_labels(labels, num_labels, weights)
    is_class = ops.logical_and(labels >= 0, labels < ops.cast(num_labels, labels.dtype))  # [...]
    return ops.cast(ops.where(is_class, labels, 0), "int32"), weights, is_wrong


def on_or_off(labels: Tensor, logits: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Labels that are on or off independently, and their weights, as a loss or metric uses them.

    `labels` are numbers [..., N], -1 where a label is not known. `logits` are floats [..., N], `weights` floats [...]
    or [..., N], or None for ones.

    Returns (labels, logits, weights; float32 [..., N], the weights 0 where a label is not known; is_wrong bool [...,
    N]: whether a label of non-zero weight is outside [0, 1]).
    """
    labels = ops.cast(labels, "float32")
    logits = ops.cast(logits, "float32")
    weights = broadcast_weights(weights, logits) * ops.cast(labels != IGNORED_LABEL, "float32")
    is_between = ops.logical_and(labels >= 0.0, labels <= 1.0)
    is_wrong = ops.logical_and(ops.logical_not(is_between), weights != 0)
    return ops.where(is_between, labels, 0.0), logits, weights, is_wrong


def wrong_labels(
    labels: Tensor, num_labels: int | Tensor, weights: Tensor | None = None, ignored: int | None = IGNORED_LABEL
) -> Tensor:
    """bool [...]: whether a label of non-zero weight is neither a class (an integer in [0, N)) nor `ignored`.

    `num_labels` is N, or an N for each label. With `ignored` None every label must be a class.
    """
    labels = _comparable(labels)
    is_class = ops.logical_and(labels >= 0, labels < ops.cast(num_labels, labels.dtype))
    if "float" in keras.backend.standardize_dtype(labels.dtype):
        is_class = ops.logical_and(is_class, ops.equal(labels, ops.floor(labels)))
    if ignored is not None:
        is_class = ops.logical_or(is_class, ops.equal(labels, ignored))
    is_wrong = ops.logical_not(is_class)
    return is_wrong if weights is None else ops.logical_and(is_wrong, weights != 0)


def _comparable(labels):
    """The labels in a type that holds -1 and every N: int32, int64 or float32."""
    labels = ops.convert_to_tensor(labels)
    kind = keras.backend.standardize_dtype(labels.dtype)
    wide = "int64" if kind in ("int64", "uint32", "uint64") else "int32"
    return ops.cast(labels, "float32" if "float" in kind else wide)


def without_padding(labels: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Positions [B] and logits [B, S], at padding -1e9, from [B, 2] (position, length). Positions [B] stay as they are.

    A position beyond the end of its row becomes S, which no row has.
    """
    labels, logits = ops.convert_to_tensor(labels), ops.convert_to_tensor(logits)
    if len(labels.shape) < 2 or labels.shape[-1] != 2:
        return labels, logits
    labels = ops.cast(labels, "int32")
    logits = ops.cast(logits, "float32")
    position = labels[:, 0]
    length = labels[:, 1]
    size = ops.shape(logits)[-1]
    is_token = ops.arange(size, dtype="int32") < labels[:, 1:]  # [B, S]
    return ops.where(position < length, position, size), ops.where(is_token, logits, -1e9)


def broadcast_weights(weights: Tensor | None, values: Tensor) -> Tensor:
    """Weights as float32 of the shape of `values`. Missing trailing axes are repeated, None is ones."""
    if weights is None:
        return ops.ones(ops.shape(values), "float32")
    weights = ops.cast(weights, "float32")
    if len(weights.shape) == len(values.shape) + 1 and weights.shape[-1] == 1:
        weights = ops.squeeze(weights, axis=-1)
    while len(weights.shape) < len(values.shape):
        weights = ops.expand_dims(weights, -1)
    return ops.broadcast_to(weights, ops.shape(values))


def check_labels(labels: Tensor, num_labels: int) -> None:
    """Raises a ValueError unless every label is an integer in [0, num_labels).

    It checks, before training starts, data in which every example must have a label: -1 is an error too.
    """
    labels = keras.ops.convert_to_numpy(labels)
    if labels.dtype.kind not in "iu":
        raise ValueError(f"check_labels: labels must be integers. Received: dtype {labels.dtype}")
    outside = labels[(labels < 0) | (labels >= num_labels)]
    if outside.size:
        raise ValueError(
            f"check_labels: labels must be in [0, {num_labels}). "
            f"Received: {sorted(set(outside.tolist()))[:5]} among {outside.size} labels outside"
        )
