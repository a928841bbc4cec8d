"""Which rows are in each batch of a fine-tuning.

Shapes: B batch, n rows.
"""

import tensorflow as tf

from kbert.preprocessing.buckets import grouped_by_length
from kbert.stateless_random import fold_in, permutation


def row_batches(count: int, *, batch_size: int, seed: int = 0, start_step: int = 0, sizes=None) -> tf.data.Dataset:
    """An infinite dataset of full batches of row numbers, in a new order each epoch.

    As in the original, a batch may hold the last rows of one epoch and the first of the next, so that every batch is
    full and no row is skipped. Batch n is a function only of the arguments and n, so a run that resumes at `start_step`
    gets the same batches as without the interruption.

    Args:
        start_step: number of the first batch.
        sizes: ints [n], the tokens of each row, to put rows of similar length into one batch
            (`kbert.preprocessing.buckets.grouped_by_length`). None: batches are drawn at random.

    Returns:
        tf.data.Dataset of int [B].
    """

    def rows_from(step):
        first_epoch, done = divmod(step * batch_size, count)
        return tf.data.Dataset.range(first_epoch, tf.int64.max).flat_map(epoch_order).skip(done)

    @tf.autograph.experimental.do_not_convert
    def epoch_order(epoch):
        return tf.data.Dataset.from_tensor_slices(permutation(fold_in(seed, epoch), count))

    if sizes is None:
        return rows_from(start_step).batch(batch_size, drop_remainder=True)
    return grouped_by_length(rows_from, sizes, batch_size=batch_size, seed=seed, start_step=start_step)
