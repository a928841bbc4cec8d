"""Graphs of string functions that a process traces once."""

import tensorflow as tf


def traced_once(function, *signature):
    """Traces a function of tensors, apart from the graph, device and strategy in which it is first called.

    A tokenizer is part of every dataset, `predict` and served signature, and tracing its string ops takes longer than
    tracing a layer of BERT. Keep the result (`functools.cache`): calling it adds one op to a graph.

    Args:
        function: of tensors; returns tensors.
        *signature: a tf.TensorSpec or tf.RaggedTensorSpec for each argument.

    Returns:
        A function of the same arguments, passed by position.

    Example::

        upper = traced_once(tf.strings.upper, tf.TensorSpec([None], tf.string))
        upper(tf.constant(["film"]))  # [b"FILM"]
    """
    with tf.init_scope(), tf.device(None):
        return tf.function(function, input_signature=signature, autograph=False).get_concrete_function()
