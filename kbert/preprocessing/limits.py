"""Limits on the size of a request, checked in graph.

Shapes: B texts.
"""

import tensorflow as tf


def once_true(condition, tensors, *data):
    """`tensors`, once a condition is known to be true; otherwise an InvalidArgumentError that shows `data`."""
    # Not tf.debugging.Assert, which words its errors differently without a graph.
    check = tf.raw_ops.Assert(condition=condition, data=list(data), summarize=5)
    with tf.control_dependencies([] if check is None else [check]):
        return tf.nest.map_structure(tf.identity, tensors)


def at_most(value, limit, what, advice, tensors):
    """`tensors`, after a check that `value` is at most `limit`; otherwise the graph raises an InvalidArgumentError.

    Everything computed from the returned tensors runs after the check: a request beyond the limit costs nothing more.

    Args:
        value: integer scalar tensor.
        what: str, what is counted; the message says ``A request may hold at most <limit> <what>``.
        advice: str, what the sender or the operator of the server can do.
        tensors: a structure of tensors.
    """
    value = tf.cast(value, tf.int64)
    received = tf.strings.as_string(value)
    message = tf.strings.join([f"A request may hold at most {limit} {what}. Received: ", received, f". {advice}"])
    return once_true(value <= limit, tensors, message)


def limit_rows(tensors, rows, max_rows, sequence_length):
    """`tensors`, once the batch is known to have at most `max_rows` rows of `sequence_length` tokens.

    Args:
        tensors: a structure of tensors, of which the batch will be made.
        rows: integer scalar tensor, the rows of the model's batch: texts, or windows of long texts.
        max_rows: int; None: no limit.
    """
    if max_rows is None:
        return tensors
    what = f"rows of {sequence_length} tokens (a text is one row, a long text one for each window, a choice one)"
    advice = "Send fewer or shorter texts, or export the model with a larger max_request_tokens."
    return at_most(rows, max_rows, what, advice, tensors)
