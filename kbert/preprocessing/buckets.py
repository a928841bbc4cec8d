"""Batches that are only as long as their longest row: no padding to 128 tokens for sentences of 20.

Preprocessors make batches of a static length S. Here a batch loses the columns in which every row is padding: all of
them, or down to the smallest of a few fixed lengths, so that a compiler meets few shapes. Masked positions have no
weight in attention and none in the loss, so every row's outputs stay what they were (up to the order of floating-point
sums).

The order of the rows may help: for evaluation they are sorted by length; for training, on request, the rows of a window
of batches are dealt out to its batches by length.

Shapes: B batch, C choices, S sequence, n rows.
"""

import numpy as np
import tensorflow as tf

from kbert.stateless_random import fold_in, permutation

PADDINGS = ("longest", "bucket", "full")
BUCKETS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # what a compiler meets
# Entries with a column for every position, [..., S]: of every model's batch, and of preprocessors that make windows.
BY_TOKEN = ("token_ids", "segment_ids", "padding_mask", "position_ids", "part_ids")
_OF_WINDOWS = ("window_token", "is_max_context", "token_starts", "token_ends")
_FEWEST_ROWS = 64  # and its multiples are shared evenly by replicas
_MULTIPLE = 4  # what "longest" is rounded up to
_LARGEST_WINDOW = 50  # batches, as in transformers' LengthGroupedSampler
_WINDOWS_IN_EPOCH = 4  # at least, where there are so many batches: an example is not to meet itself


def trim_padding(batch, padding="longest", also=()):
    """Cuts a batch down to its longest row; in graph, core ops only.

    Args:
        batch: dict with ``padding_mask`` bool [..., S] (False on padding). Entries by token, such as ``token_ids``, are
            cut with it; they are known by name, whatever the shape of others. Other entries are unchanged.
        padding: "longest": to a multiple of 4, and at least 4; "bucket": to the smallest of `BUCKETS`, for compiled
            models; "full": not at all, for a TPU.
        also: names of further entries [..., S] to cut, such as labels by token.

    Returns:
        The dict with [..., S'], S' <= S not static (but for "full").

    Raises:
        ValueError: another `padding`; a name of `also` that the batch does not hold.

    Example::

        batch = trim_padding(preprocessor(["A short text."]))  # [1, 8] where the preprocessor gives [1, 128]
    """
    if padding not in PADDINGS:
        raise ValueError(f"`padding` must be one of {PADDINGS}. Received: {padding!r}")
    if absent := set(also) - set(batch):
        raise ValueError(f"trim_padding: `also` must name entries of the batch, {sorted(batch)}. Received: {absent}")
    if padding == "full":
        return batch
    mask = batch["padding_mask"]
    full = tf.shape(mask)[-1]
    longest = tf.reduce_max(tf.where(mask, tf.range(1, full + 1), 0))
    if padding == "bucket":
        fitting = tf.reduce_min(tf.where(tf.constant(BUCKETS) >= longest, tf.constant(BUCKETS), full))
    else:
        fitting = tf.maximum(1, -(-longest // _MULTIPLE)) * _MULTIPLE
    length = tf.minimum(fitting, full)
    names = {*BY_TOKEN, *_OF_WINDOWS, *also}
    return {name: tensor[..., :length] if name in names else tensor for name, tensor in batch.items()}


def padding_for(model) -> str:
    """The `padding` for a model's batches: on a TPU one shape, where XLA compiles the model few, else any.

    Example::

        batch = trim_padding(batch, padding_for(model))
    """
    if isinstance(getattr(model, "distribute_strategy", None), tf.distribute.TPUStrategy):
        return "full"
    return "bucket" if model.jit_compile else "longest"


def limit_batch_size(batch_size, rows) -> int:
    """A batch size that the number of rows needs, a multiple of 64 where it is less than `batch_size`.

    Last batches are filled up; this keeps a batch size far beyond the rows from filling memory.

    Example::

        limit_batch_size(10**9, rows=100)  # 128
    """
    return min(batch_size, -(-max(rows, 1) // _FEWEST_ROWS) * _FEWEST_ROWS)


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
    """The order of evaluation: (row numbers by falling size, its inverse permutation).

    The longest come first, so that a batch too large for memory fails at once. ``outputs[inverse]`` restores the order.

    Example::

        order, inverse = longest_first([3, 9, 5])  # [1, 2, 0] and [2, 0, 1]
    """
    order = np.argsort(-np.asarray(sizes), kind="stable")
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return order, inverse


def grouped_by_length(rows, sizes, *, batch_size, seed, start_step=0) -> tf.data.Dataset:
    """Groups the rows of every window of batches by length, and shuffles the batches.

    Batches of rows of like length need little padding. The price is that a batch is no longer drawn at random from all
    rows, only its window is. Batch n is a function of the rows, `seed` and n alone.

    Args:
        rows: function (start_step) -> dataset of row numbers, endless, beginning with the rows of batch `start_step`.
        sizes: ints [n], the tokens of each row.
        batch_size, seed, start_step: of the run; as for `kbert.tasks.classification.dataset.training_dataset`.

    Returns:
        tf.data.Dataset of row numbers [B], beginning with batch `start_step`.
    """
    size = window_size(len(sizes), batch_size)
    sizes = tf.constant(sizes, tf.int32)
    first, done = divmod(start_step, size)

    def deal(window, numbers):  # [size * B]
        numbers = tf.gather(numbers, tf.argsort(tf.gather(sizes, numbers), stable=True))
        batches = tf.reshape(numbers, (size, batch_size))
        return tf.gather(batches, permutation(fold_in(seed, _SHUFFLE, window), size))

    windows = rows(first * size).batch(size * batch_size, drop_remainder=True)
    dealt = tf.data.Dataset.zip(tf.data.Dataset.range(first, tf.int64.max), windows).map(deal)
    return dealt.unbatch().skip(done)


def window_size(count: int, batch_size: int) -> int:
    """The batches among which rows are dealt out by length, of `count` rows in all."""
    return min(_LARGEST_WINDOW, max(1, count // batch_size // _WINDOWS_IN_EPOCH))


_SHUFFLE = 0x6275636B  # keeps this draw apart from the order of the examples, which is drawn from the same seed
