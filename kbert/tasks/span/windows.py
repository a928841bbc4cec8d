"""Questions on long texts → the windows of fine-tuning, with the position of the answer in each.

Shapes: B questions, W windows of all of them, S sequence.
"""

import numpy as np
import tensorflow as tf

from kbert.tasks.span.questions import Questions
from kbert.tasks.training_data import WindowStore


def span_positions(batch, answer_starts, answer_ends):
    """First and last token of each question's answer, in each of its windows.

    The tokens of an answer are those that share a character with it. A window without all of them, and every window of
    a question without an answer, has 0 and 0: [CLS] means "not here". `answer_starts` and `answer_ends` are int32 [B],
    code points of the context, half-open, -1 and -1 for no answer. Returns (start, end), int32 [W], columns of the
    window.

    Source: Devlin et al. 2018, section 4.3; google-research/bert run_squad.py, ``convert_examples_to_features``.
    """
    row = batch["window_row"]
    starts = tf.gather(tf.cast(answer_starts, tf.int32), row)[:, tf.newaxis]  # [W, 1]
    ends = tf.gather(tf.cast(answer_ends, tf.int32), row)[:, tf.newaxis]
    is_answer = (batch["window_token"] >= 0) & (batch["token_ends"] > starts) & (batch["token_starts"] < ends)  # [W, S]
    here = _count(is_answer)  # [W]
    # Every token has its maximum context in exactly one window, so each token of the answer is counted once.
    all_of_row = tf.math.unsorted_segment_sum(_count(is_answer & batch["is_max_context"]), row, tf.size(answer_starts))
    is_whole = (here > 0) & (here == tf.gather(all_of_row, row))
    first = tf.argmax(is_answer, axis=1, output_type=tf.int32)
    return tf.where(is_whole, first, 0), tf.where(is_whole, first + here - 1, 0)


def _count(mask):
    return tf.math.count_nonzero(mask, axis=1, dtype=tf.int32)


def span_windows(questions: Questions, preprocessor):
    """All windows of the questions, and the position of the answer in each.

    No question may be lost (`Questions.is_lost`), since it would teach the model that there is no answer. Returns a
    `WindowStore` and {"start_logits", "end_logits"}, int32 [W, 2]: the answer's first or last token, and the length of
    the window. The loss ignores positions after it (`kbert.optim.SpanLoss`).
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
