"""Limits on the size of a request, checked in graph.

Shapes: B texts.
"""

import tensorflow as tf


def once_true(condition, tensors, *data):
    """Returns `tensors` once a condition is true; else the graph raises InvalidArgumentError with `data`."""
    # Not tf.debugging.Assert, which words its errors differently without a graph.
    check = tf.raw_ops.Assert(condition=condition, data=list(data), summarize=5)
    with tf.control_dependencies([] if check is None else [check]):
        return tf.nest.map_structure(tf.identity, tensors)


def at_most(value, limit, what, advice, tensors):
    """Returns `tensors` after a check that `value` is at most `limit`, or raises InvalidArgumentError.

    Everything computed from the returned tensors runs after the check, so a request beyond the
    limit costs nothing more. The message says ``A request may hold at most <limit> <what>``, then
    `advice` for the sender or the operator of the server.
    """
    value = tf.cast(value, tf.int64)
    received = tf.strings.as_string(value)
    message = tf.strings.join([f"A request may hold at most {limit} {what}. Received: ", received, f". {advice}"])
    return once_true(value <= limit, tensors, message)


def limit_rows(tensors, rows, max_rows, sequence_length):
    """Returns `tensors` after a check that the batch has at most `max_rows` rows; None: no limit.

    `rows` is an integer scalar tensor: texts, or windows of long texts.
    """
    if max_rows is None:
        return tensors
    what = f"rows of {sequence_length} tokens (a text is one row, a long text one for each window, a choice one)"
    advice = "Send fewer or shorter texts, or export the model with a larger max_request_tokens."
    return at_most(rows, max_rows, what, advice, tensors)
