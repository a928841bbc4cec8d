"""Batches that are only as long as their longest row: no padding to 128 tokens for sentences of 20.

Preprocessors make batches of a static length S. Columns in which every row is padding are removed here, which leaves
the outputs of every row equal, up to the order of floating-point sums. Ordering the rows by length saves more padding.

Shapes: B batch, C choices, S sequence, n rows.
"""

from collections.abc import Callable, Iterable, Sequence

import keras
import numpy as np
import tensorflow as tf

from kbert.keras_compat import strategy_of
from kbert.stateless_random import fold_in, permutation

PADDINGS = ("longest", "bucket", "full")
BUCKETS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # the shapes that a compiler sees
# Entries with a value per position, [..., S]: of every model's batch, and of preprocessors that make windows.
BY_TOKEN = ("token_ids", "segment_ids", "padding_mask", "position_ids", "part_ids")
_OF_WINDOWS = ("window_token", "is_max_context", "token_starts", "token_ends")
_FEWEST_ROWS = 64  # it and its multiples divide evenly among replicas
_MULTIPLE = 4  # "longest" is rounded up to a multiple of this
_LARGEST_WINDOW = 50  # batches, as in transformers' LengthGroupedSampler
_WINDOWS_IN_EPOCH = 4  # at least, where there are so many batches: an example is not to meet itself


def trim_padding(batch: dict[str, tf.Tensor], padding: str = "longest") -> dict[str, tf.Tensor]:
    """Cuts a batch down to its longest row, [..., S] to [..., S'], S' not static; in graph, core ops only.

    ``padding_mask`` bool [..., S] decides. Entries by token are recognised by name, whatever the
    shapes of others. `padding` is "longest" (a multiple of 4), "bucket" (the smallest of `BUCKETS`,
    for compiled models) or "full" (nothing is cut, for a TPU).
    """
    if padding not in PADDINGS:
        raise ValueError(f"`padding` must be one of {PADDINGS}. Received: {padding!r}")
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
    names = {*BY_TOKEN, *_OF_WINDOWS}
    return {name: tensor[..., :length] if name in names else tensor for name, tensor in batch.items()}


def padding_for(model: keras.Model) -> str:
    """The `padding` for a model's batches: one shape on a TPU, a few if XLA compiles the model, otherwise any."""
    if isinstance(strategy_of(model), tf.distribute.TPUStrategy):
        return "full"
    return "bucket" if model.jit_compile or model.compiles_gradient else "longest"


def limit_batch_size(batch_size: int, rows: int) -> int:
    """`batch_size`, or the smaller multiple of 64 that holds all rows: last batches are filled up."""
    return min(batch_size, -(-max(rows, 1) // _FEWEST_ROWS) * _FEWEST_ROWS)


def text_sizes(columns: Iterable[Sequence[str | Sequence[str]]]) -> np.ndarray:
    """The characters of each row's texts (or lists of texts), int32 [n]: near enough to tokens for sorting."""

    def size(value):
        return len(value) if isinstance(value, str) else sum(map(len, value))

    return np.sum([[size(value) for value in column] for column in columns], axis=0, dtype="int32")


def longest_first(sizes: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(row numbers by descending size, the inverse permutation): a batch too large for memory fails at once."""
    order = np.argsort(-np.asarray(sizes), kind="stable")
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return order, inverse


def grouped_by_length(
    rows: Callable[[int], tf.data.Dataset],
    sizes: Sequence[int] | np.ndarray,
    *,
    batch_size: int,
    seed: int,
    start_step: int = 0,
) -> tf.data.Dataset:
    """Groups the rows of every window of batches by length, and shuffles the batches: row numbers [B].

    A batch is then no longer drawn at random from all rows, only its window is. Batch n is a function of the rows,
    `seed` and n alone. `rows` maps start_step to an infinite dataset of row numbers that begins with that batch.
    `sizes` are the tokens of each row, ints [n].
    """
    size = window_size(len(sizes), batch_size)
    sizes = tf.constant(sizes, tf.int32)
    first, done = divmod(start_step, size)

    @tf.autograph.experimental.do_not_convert
    def deal(window, numbers):  # [size * B]
        numbers = tf.gather(numbers, tf.argsort(tf.gather(sizes, numbers), stable=True))
        batches = tf.reshape(numbers, (size, batch_size))
        return tf.gather(batches, permutation(fold_in(seed, _SHUFFLE, window), size))

    windows = rows(first * size).batch(size * batch_size, drop_remainder=True)
    dealt = tf.data.Dataset.zip(tf.data.Dataset.range(first, tf.int64.max), windows).map(deal)
    return dealt.unbatch().skip(done)


def window_size(count: int, batch_size: int) -> int:
    """The number of batches in a window, for `count` rows in all."""
    return min(_LARGEST_WINDOW, max(1, count // batch_size // _WINDOWS_IN_EPOCH))


_SHUFFLE = 0x6275636B  # keeps this draw apart from the order of the examples, which is drawn from the same seed
