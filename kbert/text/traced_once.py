"""Graphs of string functions that a process traces once."""

import tensorflow as tf


def traced_once(function, *signature):
    """Traces a function of tensors, apart from the graph, device and strategy in which it is first called.

    A tokenizer is part of every dataset, `predict` and served signature, and tracing its string ops
    takes longer than tracing a layer of BERT. Keep the result (`functools.cache`): calling it adds
    one op to a graph. `signature` has a tf.TensorSpec or tf.RaggedTensorSpec for each argument,
    which are passed by position.
    """
    with tf.init_scope(), tf.device(None):
        return tf.function(function, input_signature=signature, autograph=False).get_concrete_function()
