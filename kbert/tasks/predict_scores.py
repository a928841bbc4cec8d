"""A model's scores for columns of strings, in batches of similar length.

Shapes: B batch, N labels, C choices, n rows.
"""

import numpy as np
import tensorflow as tf

from kbert.preprocessing.buckets import limit_batch_size, longest_first, padding_for, text_sizes, trim_padding
from kbert.tasks.training_dataset import row_reader
from kbert.training.progress import PredictionProgress

_FEW_BATCHES = 4  # are encoded at once: an input pipeline takes a third of a second to start


def predict_scores(model, preprocessor, columns, *, batch_size: int = 32, static: bool = False) -> np.ndarray:
    """The scores of every row by a model with one output, such as a classifier, regressor or multiple-choice model.

    Rows run in the order of their length, in full batches cut to their longest row, and are returned in their original
    order. The scores are those of padded batches, up to the order of floating-point sums.

    Args:
        model: with one output: ``logits`` [B, N] or [B, C], or scores.
        preprocessor: the pipeline's, from strings to the model's batch.
        columns: {name: list of n strings, or of n equally long lists of strings}, as the preprocessor names them.
        static: keep every batch at the preprocessor's length, as a TPU needs it.

    Returns:
        float64: of logits probabilities [n, N] or [n, C], of a multi-label classifier each by itself; else scores [n].

    Raises:
        FloatingPointError: scores that are infinite or NaN.
    """
    order, place = longest_first(text_sizes(columns.values()))
    if not static:
        batch_size = limit_batch_size(batch_size, len(order))
    data = _batches(order, columns, preprocessor, batch_size, "full" if static else padding_for(model))
    (name,) = model.output
    outputs = model.predict(data, verbose=0, callbacks=[PredictionProgress(len(order), batch_size)])
    scores = np.asarray(outputs[name])[place].astype("float64")
    check_scores(scores)
    if name != "logits":
        return scores
    if model.multi_label:
        return 1.0 / (1.0 + np.exp(-np.clip(scores, -700, 700)))
    return softmax(scores)


def check_scores(scores):
    """Raise a FloatingPointError if scores [n, ...] are infinite or NaN, since their maximum means nothing."""
    bad = np.argwhere(~np.isfinite(scores))
    if len(bad):
        raise FloatingPointError(
            f"Expected a model with finite scores. Received: for row {bad[0][0]} {scores[tuple(bad[0])]}. "
            "Its weights are damaged, or it needs --precision float32."
        )


def softmax(logits):
    """Probabilities of logits [..., N]."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def cross_entropies(logits, labels):
    """-log of the probability of each label [n] by its logits [n, N], float64 [n]."""
    logits = logits.astype("float64")
    logits -= logits.max(axis=-1, keepdims=True)
    return np.log(np.exp(logits).sum(axis=-1)) - logits[np.arange(len(labels)), labels]


def _batches(order, columns, preprocessor, batch_size, padding):
    """The rows in the given order, in full batches: the last one is filled up with its last row.

    So there is only one compilation, and replicas get equal shares.
    """
    missing = -len(order) % batch_size
    rows = np.concatenate([order, np.repeat(order[-1:], missing)])
    texts = row_reader(columns)

    @tf.autograph.experimental.do_not_convert
    def batch(indices):  # [B]
        inputs = preprocessor(texts(indices))
        return trim_padding(inputs, padding)

    if len(rows) <= _FEW_BATCHES * batch_size:
        return tf.data.Dataset.from_tensor_slices(batch(rows)).batch(batch_size, drop_remainder=True)
    rows = tf.data.Dataset.from_tensor_slices(rows.reshape(-1, batch_size))
    return rows.map(batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
