"""Labelled texts → the batches of fine-tuning, through the preprocessor that the pipeline keeps.

Shapes: B batch, S sequence.
"""

import tensorflow as tf

from kbert.data.random import fold, permutation
from kbert.optim.cross_entropy import check_labels
from kbert.tasks.labelled_text import LabelledText


def training_steps(examples: int, batch_size: int, epochs: float) -> int:
    """Weight updates of a fine-tuning, as the original counts them: int(examples / batch size × epochs), at least 1."""
    return max(1, int(examples / batch_size * epochs))


def training_dataset(
    examples: LabelledText,
    preprocessor,
    *,
    batch_size: int,
    seed: int = 0,
    start_step: int = 0,
    num_labels: int | None = None,
) -> tf.data.Dataset:
    """Endless full batches for `model.fit`, in another order each epoch.

    The epochs follow each other without a gap, as in the original: a batch may hold the last examples of one epoch
    and the first of the next, so every batch is full and no example is left out. Batch n depends on the examples,
    `batch_size`, `seed` and n alone, so a run that is taken up at `start_step` sees what it would have seen.

    Args:
        examples: what to learn.
        preprocessor: `TextPreprocessor` for as many texts as the examples have.
        batch_size, seed: the run's.
        start_step: number of the first batch.
        num_labels: N of the model. If given, labels outside [0, N) are an error (a loss would leave them out).

    Returns:
        tf.data.Dataset of ``(inputs, labels)``: inputs a batch dict [B, S]; labels ``{"logits": int32 [B]}``, or for
        regression ``{"score": float32 [B]}``.

    Example::

        data = training_dataset(examples, TextPreprocessor(tokenizer), batch_size=32)
        model.fit(data, steps_per_epoch=training_steps(len(examples), 32, epochs=3))
    """
    if num_labels is not None:
        check_labels(examples.labels, num_labels)
    first_epoch, done = divmod(start_step * batch_size, len(examples))

    def epoch_order(epoch):
        return tf.data.Dataset.from_tensor_slices(permutation(fold(seed, epoch), len(examples)))

    epochs = tf.data.Dataset.range(first_epoch, tf.int64.max)
    rows = epochs.flat_map(epoch_order).skip(done).batch(batch_size, drop_remainder=True)
    return _batches(rows, examples, preprocessor)


def evaluation_dataset(examples: LabelledText, preprocessor, *, batch_size: int) -> tf.data.Dataset:
    """The examples once and in order, as full batches: the last is filled up with repeats of the last example.

    Full batches keep shapes static (no second compilation, even shares for replicas); who reads the predictions
    drops what is beyond ``len(examples)``, as `kbert.tasks.evaluation.evaluate` does.

    Args and returns: as `training_dataset`.
    """
    batches = -(-len(examples) // batch_size)
    rows = tf.data.Dataset.range(batches).map(
        lambda n: tf.minimum(n * batch_size + tf.range(batch_size, dtype=tf.int64), len(examples) - 1)
    )
    return _batches(rows, examples, preprocessor)


def _batches(rows, examples, preprocessor):
    texts = {"text": tf.constant(examples.texts)}
    if examples.pair:
        texts["text_pair"] = tf.constant(examples.text_pairs)
    output, kind = ("score", "float32") if examples.regression else ("logits", "int32")
    labels = tf.constant(examples.labels, kind)

    def batch(indices):  # [B]
        strings = {key: tf.gather(column, indices) for key, column in texts.items()}
        return preprocessor(strings), {output: tf.gather(labels, indices)}

    return rows.map(batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
