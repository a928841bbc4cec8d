"""Batches that are only as long as their longest row: no padding to 128 tokens for sentences of 20.

Preprocessors make batches of a static length S. Here a batch loses the columns in which every row is padding, down to
the smallest of a few fixed lengths, so that a compiler meets few shapes. Masked positions have no weight in attention
and none in the loss, so every row's outputs stay what they were (up to the order of floating-point sums).

The order of the rows may help: for evaluation they are sorted by length; for training, on request, the rows of a window
of batches are dealt out to its batches by length.

Shapes: B batch, C choices, S sequence, n rows.
"""

import numpy as np
import tensorflow as tf

from kbert.data.random import fold, permutation

BUCKETS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # the lengths that a batch is cut to
WINDOW = 16  # batches among which rows are dealt out by length


def cut_to_bucket(batch, lengths=BUCKETS):
    """Cuts a batch to the smallest of `lengths` that holds its longest row; in graph, core ops only.

    Args:
        batch: dict with ``padding_mask`` bool [..., S] (False on padding). Other entries of the same rank with S as
            their last axis (``token_ids``, ``segment_ids``, labels by token) are cut with it, the rest is left alone.
        lengths: increasing ints. A batch that none of them holds keeps its length.

    Returns:
        The dict with [..., S'], S' <= S not static.

    Example::

        batch = cut_to_bucket(preprocessor(["A short text."]))  # [1, 16] where the preprocessor gives [1, 128]
    """
    mask = batch["padding_mask"]
    full = tf.shape(mask)[-1]
    longest = tf.reduce_max(tf.where(mask, tf.range(1, full + 1), 0))
    fitting = tf.reduce_min(tf.where(tf.constant(lengths) >= longest, tf.constant(lengths), full))
    length = tf.minimum(fitting, full)

    def is_by_token(tensor):
        return tensor.shape.rank == mask.shape.rank and tensor.shape[-1] == mask.shape[-1]

    return {name: tensor[..., :length] if is_by_token(tensor) else tensor for name, tensor in batch.items()}


def text_sizes(columns) -> np.ndarray:
    """How long each row's texts are, in characters: near enough to the number of tokens to sort by, and free.

    Args:
        columns: lists of n strings, or of n lists of strings.

    Returns:
        int32 [n].
    """

    def size(value):
        return len(value) if isinstance(value, str) else sum(map(len, value))

    return np.sum([[size(value) for value in column] for column in columns], axis=0, dtype="int32")


def longest_first(sizes) -> tuple[np.ndarray, np.ndarray]:
    """The order of evaluation: (row numbers by falling size, where each row then stands).

    The longest come first, so that what does not fit into memory fails at once. ``outputs[place]`` restores the order.

    Example::

        order, place = longest_first([3, 9, 5])  # [1, 2, 0] and [2, 0, 1]
    """
    order = np.argsort(-np.asarray(sizes), kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return order, place


def grouped_by_length(rows, sizes, *, batch_size, seed, start_step=0) -> tf.data.Dataset:
    """Deals the rows of every `WINDOW` batches out to those batches by length, and shuffles the batches.

    Batches of rows of like length need little padding. The price is that a batch is no longer drawn at random from all
    rows, only its window is. Batch n is a function of the rows, `seed` and n alone.

    Args:
        rows: function (start_step) -> dataset of row numbers, endless, beginning with the rows of batch `start_step`.
        sizes: ints [n], length of each row's text.
        batch_size, seed, start_step: of the run; as for `kbert.tasks.finetuning_data.training_dataset`.

    Returns:
        tf.data.Dataset of row numbers [B], beginning with batch `start_step`.
    """
    sizes = tf.constant(sizes, tf.int32)
    first, done = divmod(start_step, WINDOW)

    def deal(window, numbers):  # [WINDOW * B]
        numbers = tf.gather(numbers, tf.argsort(tf.gather(sizes, numbers), stable=True))
        batches = tf.reshape(numbers, (WINDOW, batch_size))
        return tf.gather(batches, permutation(fold(seed, _SHUFFLE, window), WINDOW))

    windows = rows(first * WINDOW).batch(WINDOW * batch_size, drop_remainder=True)
    dealt = tf.data.Dataset.zip(tf.data.Dataset.range(first, tf.int64.max), windows).map(deal)
    return dealt.unbatch().skip(done)


_SHUFFLE = 0x6275636B  # keeps this draw apart from the order of the examples, which is drawn from the same seed
