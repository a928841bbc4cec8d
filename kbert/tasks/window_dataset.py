"""Windows of long texts → the batches of fine-tuning.

Shapes: B batch, S sequence, W windows.
"""

import numpy as np
import tensorflow as tf

from kbert.preprocessing.buckets import trim_padding
from kbert.tasks.epoch_permutation import row_batches
from kbert.tasks.window_store import WindowStore


def window_dataset(
    store: WindowStore,
    labels,
    *,
    batch_size: int,
    seed: int = 0,
    start_step: int = 0,
    padding: str = "bucket",
    group_by_length: bool = False,
    weights: np.ndarray | None = None,
) -> tf.data.Dataset:
    """An infinite dataset of full batches of windows for `model.fit`, in a new order each epoch.

    Batch n depends only on the windows, `batch_size`, `seed`, `group_by_length` and n.

    Args:
        labels: {output: integers [W] or [W, ...]}.
        weights: floats [W], the loss factor of each window; None: 1 for all.

    Returns:
        tf.data.Dataset of ``(inputs, labels)``: a batch dict [B, S] and the rows of the labels. With `weights`, also
        these, under the keys of the labels.
    """
    labels = {name: tf.constant(values) for name, values in labels.items()}
    factors = None if weights is None else tf.constant(weights, "float32")

    @tf.autograph.experimental.do_not_convert
    def batch(windows):  # [B]
        inputs = store.batch(windows)
        one = trim_padding(inputs, padding), {k: tf.gather(v, windows) for k, v in labels.items()}
        return one if factors is None else (*one, {k: tf.gather(factors, windows) for k in labels})

    sizes = store.lengths if group_by_length else None
    rows = row_batches(len(store), batch_size=batch_size, seed=seed, start_step=start_step, sizes=sizes)
    return rows.map(batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
