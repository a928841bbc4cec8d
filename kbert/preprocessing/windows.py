"""Long texts → overlapping windows of tokens, and limits on their number, in graph.

Shapes: B texts, W windows of all of them, c content positions of a window, t content tokens of all texts.
"""

from typing import Any

import tensorflow as tf

from kbert.preprocessing.strings import once_true


def at_most(value: tf.Tensor, limit: int, what: str, advice: str, tensors: Any) -> Any:
    """Returns `tensors` after a check that `value` is at most `limit`, or raises InvalidArgumentError.

    What is computed from the returned tensors runs after the check: a request beyond the limit costs nothing more.
    """
    value = tf.cast(value, tf.int64)
    received = tf.strings.as_string(value)
    message = tf.strings.join([f"A request may hold at most {limit} {what}. Received: ", received, f". {advice}"])
    return once_true(value <= limit, tensors, message)


def limit_rows(tensors: Any, rows: tf.Tensor, max_rows: int | None, sequence_length: int) -> Any:
    """Returns `tensors` after a check that the batch has at most `max_rows` rows (None: no limit)."""
    if max_rows is None:
        return tensors
    what = f"rows of {sequence_length} tokens (a text is one row, a long text one for each window, a choice one)"
    advice = "Send fewer or shorter texts, or export the model with a larger max_request_tokens."
    return at_most(rows, max_rows, what, advice, tensors)


def sliding_windows(
    lengths: tf.Tensor, max_content_tokens: int | tf.Tensor, doc_stride: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Cuts texts of `lengths` tokens [B] into windows: (window_row, window_start, window_length), int32 [W].

    They are ordered by text, then by position, and the start is counted within the text. The next window begins
    ``min(max_content_tokens, doc_stride)`` tokens later, and the first one that reaches the end of the text is its
    last. A text without tokens gets one empty window, so that every text has an answer. `max_content_tokens` is one
    number or integers [B]; values below 1 count as 1.

    Source: google-research/bert run_squad.py, ``convert_examples_to_features``; Devlin et al. 2018, section 4.2.
    """
    lengths = tf.cast(lengths, tf.int32)  # [B]
    max_content_tokens = tf.broadcast_to(tf.maximum(tf.cast(max_content_tokens, tf.int32), 1), tf.shape(lengths))  # [B]
    step = tf.minimum(max_content_tokens, doc_stride)
    beyond = tf.maximum(lengths - max_content_tokens, 0)  # tokens after the first window
    count = 1 + (beyond + step - 1) // step  # [B]
    window_row = tf.repeat(tf.range(tf.size(lengths)), count)  # [W]
    number = tf.range(tf.size(window_row)) - tf.gather(tf.cumsum(count, exclusive=True), window_row)  # within its text
    window_start = number * tf.gather(step, window_row)
    window_length = tf.minimum(tf.gather(lengths, window_row) - window_start, tf.gather(max_content_tokens, window_row))
    return window_row, window_start, window_length


def window_tokens(
    window_row: tf.Tensor, window_start: tf.Tensor, window_length: tf.Tensor, sequence_length: int
) -> tf.Tensor:
    """The number of the token among those of all texts at each content position, int32 [W, c]; -1 after the end.

    `sequence_length` is c, at least the longest window.
    """
    rows = tf.reduce_max(tf.concat([window_row, [-1]], 0)) + 1
    # Every text's last window ends with the text.
    lengths = tf.maximum(tf.math.unsorted_segment_max(window_start + window_length, window_row, rows), 0)  # [B]
    first = tf.gather(tf.cumsum(lengths, exclusive=True), window_row) + window_start  # [W]
    position = tf.range(sequence_length)[tf.newaxis, :]  # [1, c]
    return tf.where(position < window_length[:, tf.newaxis], first[:, tf.newaxis] + position, -1)


def max_context(
    window_row: tf.Tensor, window_start: tf.Tensor, window_length: tf.Tensor, sequence_length: int
) -> tf.Tensor:
    """Where a token is in its window of most context, whose prediction counts: bool [W, c].

    The context of a token in a window is min(tokens on its left, tokens on its right) plus 0.01
    times the window's length. The first window wins a tie. Every token is True exactly once.

    Source: google-research/bert run_squad.py, ``_check_is_max_context``.
    """
    tokens = window_tokens(window_row, window_start, window_length, sequence_length)  # [W, c]
    total = tf.reduce_max(tf.concat([tf.reshape(tokens, [-1]), [-1]], 0)) + 1  # T
    position = tf.range(sequence_length)[tf.newaxis, :]
    length = window_length[:, tf.newaxis]  # [W, 1]
    # In float64, term by term as Python computes it, so that near ties fall as they do in the original.
    score = tf.cast(tf.minimum(position, length - 1 - position), tf.float64) + 0.01 * tf.cast(length, tf.float64)
    index = tf.maximum(tokens, 0)
    # unsorted_segment_* skip negative segments: positions after the end.
    best = tf.concat([tf.math.unsorted_segment_max(score, tokens, total), [0.0]], 0)  # [t + 1]; no token is legal too
    is_best = (tokens >= 0) & (score == tf.gather(best, index))
    window = tf.broadcast_to(tf.range(tf.size(window_row))[:, tf.newaxis], tf.shape(tokens))
    first = tf.math.unsorted_segment_min(window, tf.where(is_best, tokens, -1), total)  # [t]
    first = tf.concat([first, [-1]], 0)
    return is_best & (window == tf.gather(first, index))
