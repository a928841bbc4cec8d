"""Windows of long texts → the batches of fine-tuning.

Shapes: B batch, S sequence, W windows.
"""

import numpy as np
import tensorflow as tf

from kbert.checks import check_bool
from kbert.preprocessing.buckets import trim_padding
from kbert.tasks.epoch_permutation import row_batches
from kbert.tasks.span.positions import span_positions
from kbert.tasks.span.questions import Questions
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

    check_bool(group_by_length, "window_dataset: `group_by_length`")
    sizes = store.lengths if group_by_length else None
    rows = row_batches(len(store), batch_size=batch_size, seed=seed, start_step=start_step, sizes=sizes)
    return rows.map(batch, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)


def span_windows(questions: Questions, preprocessor):
    """All windows of the questions, and the position of the answer in each.

    Args:
        questions: the training examples; none of them lost (`Questions.is_lost`), since these would teach the model
            that there is no answer.

    Returns:
        (`WindowStore`, {"start_logits", "end_logits"}): int32 [W, 2], the answer's first or last token and the length
        of the window; the loss ignores positions after it (`kbert.optim.SpanLoss`).

    Raises:
        ValueError: lost questions.
    """
    if questions.is_lost.any():
        lost = [questions.ids[i] for i in np.flatnonzero(questions.is_lost)[:3]]
        raise ValueError(
            f"span_windows: expected contexts that hold their answers. Received: {int(questions.is_lost.sum())} that "
            f"do not, such as {lost}; take the others"
        )
    positions = []

    def locate(some, batch):
        positions.append(span_positions(batch, some.answer_starts, some.answer_ends))

    store = WindowStore.from_examples(questions, preprocessor, locate)
    starts, ends = (np.concatenate([np.asarray(pair[i]) for pair in positions]) for i in (0, 1))
    return store, {
        "start_logits": np.stack([starts, store.lengths], 1),
        "end_logits": np.stack([ends, store.lengths], 1),
    }
