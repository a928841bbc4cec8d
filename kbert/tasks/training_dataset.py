"""Labelled examples → the batches of fine-tuning, through the pipeline's preprocessor.

Shapes: B batch, S sequence, N labels.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from kbert.models.class_weights import class_factors
from kbert.preprocessing.buckets import trim_padding
from kbert.tasks.epoch_permutation import row_batches
from kbert.tasks.labelled_text import LabelledText
from kbert.tasks.labels import check_label_numbers
from kbert.tasks.stored_texts import StoredTexts


def training_dataset(
    examples: LabelledText,
    preprocessor,
    *,
    batch_size: int,
    seed: int = 0,
    start_step: int = 0,
    num_labels: int | None = None,
    padding: str = "bucket",
    group_by_length: bool = False,
    weights: np.ndarray | None = None,
) -> tf.data.Dataset:
    """An infinite dataset of full batches for `model.fit`, in a new order each epoch.

    As in the original, a batch may hold the last examples of one epoch and the first of the next, so that every batch
    is full and no example is skipped. Batch n depends only on the examples, `batch_size`, `seed` and n, so a run that
    resumes at `start_step` gets the same batches as without the interruption.

    Args:
        examples: what to learn; `LabelledText`, or `LabelledChoices` for multiple choice.
        preprocessor: the pipeline's, for the columns that the examples have.
        num_labels: N of the model. If given, labels outside [0, N) are an error here, not in the first step.
        padding: which padding a batch keeps (`kbert.preprocessing.buckets.trim_padding`); it affects only the time of a
            step. S is static only with "full", which a TPU needs.
        group_by_length: whether to sort the rows of up to 50 batches into batches by number of tokens. Faster, but the
            batches are no longer random; all examples are tokenised once more at the start.
        weights: floats, the loss factor of each example; None: 1 for all.

    Returns:
        tf.data.Dataset of ``(inputs, labels)``, with `weights` ``(inputs, labels, sample_weight)``: inputs a batch dict
        [B, S]; labels ``{"logits": int32 [B]}``, of several labels a text [B, N], or for regression ``{"score": float32
        [B]}``; weights under the same key.
    """
    if num_labels is not None:
        check_label_numbers(examples.labels, num_labels)

    sizes = token_counts(examples, preprocessor) if group_by_length else None
    rows = row_batches(len(examples), batch_size=batch_size, seed=seed, start_step=start_step, sizes=sizes)
    return _batches(rows, examples, preprocessor, padding, weights)


def class_weights(class_weight, pipeline, examples: LabelledText) -> np.ndarray:
    """The factor of each example's loss, float32.

    Args:
        class_weight: as `kbert.models.class_weights.class_factors` takes it.
        pipeline: of a classifier.
        examples: with the model's labels.

    Raises:
        ValueError: a model without labels, or what `class_factors` refuses.
    """
    labels, ids = pipeline.answers.labels, examples.labels
    if not labels:
        raise ValueError(f"finetune: `class_weight` is for models with labels. Received: {class_weight!r}")
    return class_factors(class_weight, len(labels), labels, ids=ids, owner="finetune")[ids]


def real_tokens(examples: LabelledText, preprocessor, sample: int = 1024) -> float:
    """Mean number of tokens per example that are not padding, of `sample` evenly spread examples; for speeds."""
    some = np.linspace(0, len(examples) - 1, min(sample, len(examples)), dtype="int64")
    tokens = 0
    for start in range(0, len(some), 64):  # few at once: long documents have many windows each
        columns = examples.take(some[start : start + 64]).columns
        batch = preprocessor({name: tf.constant(column) for name, column in columns.items()})
        tokens += int(tf.math.count_nonzero(batch["padding_mask"]))
    return tokens / len(some)


def token_counts(examples: LabelledText, preprocessor) -> np.ndarray:
    """Tokens of each example (of choices: of the longest) that are not padding, int32 [n]; all texts are tokenised."""
    texts = row_reader(examples.columns)

    @tf.autograph.experimental.do_not_convert
    def count(rows):  # [up to 1024]
        batch = preprocessor(texts(rows))
        tokens = tf.math.count_nonzero(batch["padding_mask"], axis=-1, dtype=tf.int32)
        return tokens if tokens.shape.rank == 1 else tf.reduce_max(tokens, axis=-1)

    counts = tf.data.Dataset.range(len(examples)).batch(1024).map(count, num_parallel_calls=tf.data.AUTOTUNE)
    return np.concatenate(list(counts.as_numpy_iterator()))


def row_reader(columns: Mapping[str, Any]) -> Callable[[Any], dict[str, Any]]:
    """A function of row numbers [B], also in a graph, that gives those rows of columns: {name: tensor [B, …]}."""
    sources = {name: one if isinstance(one, StoredTexts) else tf.constant(one) for name, one in columns.items()}
    return lambda rows: {name: _gather(source, rows) for name, source in sources.items()}


def _gather(source, rows):
    if not isinstance(source, StoredTexts):
        return tf.gather(source, rows)
    texts = tf.numpy_function(lambda rows: np.array(source.read(rows), object), [rows], tf.string, stateful=False)
    return tf.ensure_shape(texts, rows.shape)


def _batches(rows, examples, preprocessor, padding, weights):
    texts = row_reader(examples.columns)
    output, kind = ("score", "float32") if examples.regression else ("logits", "int32")
    labels = tf.constant(examples.labels, kind)
    factors = None if weights is None else tf.constant(weights, "float32")

    @tf.autograph.experimental.do_not_convert
    def batch(indices):  # [B]
        inputs = preprocessor(texts(indices))
        one = trim_padding(inputs, padding), {output: tf.gather(labels, indices)}
        return one if factors is None else (*one, {output: tf.gather(factors, indices)})

    return rows.map(batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
