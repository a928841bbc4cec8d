"""A model's answers to labelled examples, and their scores.

Shapes: B batch, S sequence, W windows, N labels, C choices, n rows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike

from kbert.preprocessing.buckets import limit_batch_size, longest_first, padding_for, text_sizes, trim_padding
from kbert.tasks.labelled_text import check_label_numbers
from kbert.tasks.metrics import mean_squared_error, metrics_of, scores_by_label
from kbert.tasks.training_data import row_reader
from kbert.training.callbacks import PredictionProgress

if TYPE_CHECKING:
    import keras

    from kbert.pipelines.pipeline import Pipeline
    from kbert.tasks.examples import Examples

_FEW_BATCHES = 4  # are encoded at once: an input pipeline takes a third of a second to start


def predict_scores(pipeline: "Pipeline", columns: Mapping, *, batch_size: int = 32, static: bool = False) -> np.ndarray:
    """The scores of every row by a model with one output, such as a classifier, regressor or multiple-choice model.

    Rows run from the longest to the shortest, in full batches cut to their longest row; with `static` every batch keeps
    the preprocessor's length, as a TPU needs it. Long texts are scored by what the pipeline pools over their windows.
    Returns float64: probabilities [n, N] or [n, C] if the output is ``logits``, else scores [n] or embeddings.
    """
    model = pipeline.model
    (name,) = model.output
    if pipeline.preprocessor.makes_windows:
        answers = predict_answers(pipeline, columns, batch_size)
        scores = answers["probabilities" if name == "logits" else name].astype("float64")
        check_scores(scores)
        return scores
    order, place = longest_first(text_sizes(columns.values()))
    if not static:
        batch_size = limit_batch_size(batch_size, len(order))
    data = _batches(order, columns, pipeline.preprocessor, batch_size, "full" if static else padding_for(model))
    outputs = model.predict(data, verbose=0, callbacks=[PredictionProgress(len(order), batch_size)])
    scores = np.asarray(outputs[name])[place].astype("float64")
    check_scores(scores)
    if name != "logits":
        return scores
    if model.multi_label:
        return 1.0 / (1.0 + np.exp(-np.clip(scores, -700, 700)))
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def predict_answers(pipeline: "Pipeline", columns: Mapping, batch_size: int) -> dict[str, np.ndarray]:
    """A pipeline's answers, predicted from the longest row to the shortest and returned in the rows' order."""
    order, place = longest_first(text_sizes(columns.values()))
    texts = {name: [column[row] for row in order] for name, column in columns.items()}
    progress = PredictionProgress(len(order), batch_size)
    answers = pipeline.predict(texts, batch_size=batch_size, verbose=0, callbacks=[progress])
    return {name: np.asarray(values)[place] for name, values in answers.items()}


def _batches(order, columns, preprocessor, batch_size, padding):
    """The rows in the given order, in full batches. The last one is filled up with its last row.

    So there is only one compilation, and replicas get equal shares.
    """
    missing = -len(order) % batch_size
    rows = np.concatenate([order, np.repeat(order[-1:], missing)])
    texts = row_reader(columns)

    @tf.autograph.experimental.do_not_convert
    def batch(numbers):  # [B]
        return trim_padding(preprocessor(texts(numbers)), padding)

    if len(rows) <= _FEW_BATCHES * batch_size:
        return tf.data.Dataset.from_tensor_slices(batch(rows)).batch(batch_size, drop_remainder=True)
    rows = tf.data.Dataset.from_tensor_slices(rows.reshape(-1, batch_size))
    return rows.map(batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)


def predict_windows(
    model: "keras.Model", lengths: np.ndarray, read: Callable, sequence_length: int, batch_size: int
) -> dict:
    """All outputs of a model that answers for every token, float32 [W, S, ...], 0 at padding.

    `lengths` are the tokens of each window, and `read` gives the model's batch of window numbers [B].
    """
    order, _ = longest_first(lengths)
    batch_size = limit_batch_size(batch_size, len(order))
    progress = PredictionProgress(len(order), batch_size, what="windows predicted")
    shape = (len(order), sequence_length)
    outputs = {name: np.zeros((*shape, *output.shape[2:]), "float32") for name, output in model.output.items()}
    for start in range(0, len(order), batch_size):
        windows = order[start : start + batch_size]
        full = np.concatenate([windows, np.repeat(windows[-1:], batch_size - len(windows))])  # one size: traced once
        batch = trim_padding(read(full), padding_for(model))
        for name, values in model.predict_on_batch(batch).items():
            outputs[name][windows, : values.shape[1]] = values[: len(windows)]
        progress.done(start + len(windows))
    return outputs


def check_scores(scores: np.ndarray) -> None:
    """Raises a FloatingPointError if scores [n, ...] are infinite or NaN, since their maximum means nothing."""
    bad = np.argwhere(~np.isfinite(scores))
    if len(bad):
        raise FloatingPointError(
            f"Expected a model with finite scores. Received: for row {bad[0][0]} {scores[tuple(bad[0])]}. "
            "Its weights are damaged, or it needs --precision float32."
        )


def cross_entropies(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """-log of the probability of each label [n] by its logits [n, N], float64 [n]."""
    logits = logits.astype("float64")
    logits -= logits.max(axis=-1, keepdims=True)
    return np.log(np.exp(logits).sum(axis=-1)) - logits[np.arange(len(labels)), labels]


def evaluate(
    pipeline: "Pipeline", examples: "Examples", metrics: Sequence[str], *, batch_size: int = 32, static: bool = False
) -> tuple[dict, np.ndarray]:
    """Scores the predictions for all examples: their scores, and what `predict_scores` returned.

    The scores are ``{"examples": count, "loss": cross entropy or squared error, <metric>: …}``, and for a classifier
    ``"labels": {label: …}`` with those of each label (`kbert.tasks.metrics.scores_by_label`). `metrics` are names in
    `kbert.tasks.metrics.metrics_of` the labels. No metric depends on `batch_size` or `static`.
    """
    if pipeline.model.num_labels is not None:  # before the work of predicting
        check_label_numbers(examples.labels, pipeline.model.num_labels)
    scores = predict_scores(pipeline, examples.columns, batch_size=batch_size, static=static)
    answers = pipeline.answers
    return compare(examples, scores, metrics, answers.thresholds, answers.labels), scores


def compare(
    examples: "Examples",
    scores: np.ndarray,
    metrics: Sequence[str],
    thresholds: ArrayLike | None = None,
    names: Sequence[str] | None = None,
) -> dict:
    """The scores of `evaluate` from existing predictions, of one model or the mean of several.

    `scores` are probabilities [n, N], or for regression numbers [n]. `thresholds` are floats [N], which the probability
    of a label exceeds where it is on. None: 0.5. With the `names` of the labels, the scores of each label are among
    the result.
    """
    labels = examples.labels
    if examples.regression:
        loss = mean_squared_error(labels, scores)
        predictions = scores
    else:
        check_label_numbers(labels, scores.shape[-1])
        if labels.ndim == 2:
            likelihoods = np.where(labels == 1, scores, 1.0 - scores)
            predictions = (scores > (0.5 if thresholds is None else np.asarray(thresholds))).astype("int32")
        else:
            likelihoods = scores[np.arange(len(labels)), labels]
            predictions = np.argmax(scores, axis=-1)
        loss = float(-np.mean(np.log(np.maximum(likelihoods, np.finfo("float64").tiny))))
    named = {name: metrics_of(labels)[name](labels, predictions) for name in metrics}
    by_label = {} if names is None else {"labels": scores_by_label(labels, predictions, names)}
    return {"examples": len(examples), "loss": loss, **named, **by_label}
