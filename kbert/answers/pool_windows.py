"""Scores of a text's windows → scores of the text.

Shapes: B texts, W windows of all of them, N labels.
"""

import tensorflow as tf

POOLINGS = ("max", "mean")


def check_window_pooling(window_pooling, owner):
    """Raises ValueError unless `window_pooling` is None, "max" or "mean"."""
    if window_pooling not in (None, *POOLINGS):
        raise ValueError(f"{owner}: `window_pooling` must be None or one of {POOLINGS}. Received: {window_pooling!r}")


def pool_windows(values, batch, window_pooling):
    """Pools logits or scores, float32 [W] or [W, N], over the windows of each text: float32 [B] or [B, N].

    "max" is taken of each label separately. None means that texts are not split, and `values` is returned. `batch` is
    what `DocumentPreprocessor` returned: ``window_row`` int32 [W], ``text`` string [B].
    """
    if window_pooling is None:
        return values
    pool = tf.math.unsorted_segment_max if window_pooling == "max" else tf.math.unsorted_segment_mean
    return pool(values, batch["window_row"], tf.size(batch["text"]))


def pooled_size(size, batch, window_pooling):
    """B of symbolic values, whose first dimension is `size`."""
    return size if window_pooling is None else batch["text"].shape[0]
