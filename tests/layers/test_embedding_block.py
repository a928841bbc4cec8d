"""The embedding block: the order of its steps, and ids and lengths that do not fit."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kbert.layers.embedding_block import EmbeddingBlock

IDS = np.array([[5, 0, 36, 5, 7], [1, 2, 3, 4, 5]], "int32")
SEGMENTS = np.array([[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]], "int32")


def block(**arguments):
    layer = EmbeddingBlock(
        **{"vocabulary_size": 37, "hidden_dim": 12, "max_sequence_length": 9, "dropout": 0.5} | arguments
    )
    layer(IDS, SEGMENTS)
    rng = np.random.default_rng(2)
    layer.set_weights([rng.normal(size=w.shape) for w in layer.get_weights()])
    return layer


def numpy_block(layer, positions):
    token, segment, position, gamma, beta = [np.float64(w) for w in layer.get_weights()]
    x = token[IDS] + segment[SEGMENTS] + position[positions]
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-12) * gamma + beta


def test_token_segment_position_then_normalisation():
    layer = block(dropout=0.0)
    np.testing.assert_allclose(layer(IDS, SEGMENTS), numpy_block(layer, np.arange(5)), atol=1e-5)


def test_positions_can_be_given():
    layer, positions = block(dropout=0.0), np.array([[0, 1, 2, 0, 1], [8, 8, 0, 1, 2]], "int32")
    np.testing.assert_allclose(layer(IDS, SEGMENTS, positions), numpy_block(layer, positions), atol=1e-5)


def test_dropout_comes_after_the_normalisation():
    layer = block()
    inference, training = np.array(layer(IDS, SEGMENTS)), np.array(layer(IDS, SEGMENTS, training=True))
    dropped = training == 0.0
    assert 0.2 < dropped.mean() < 0.8
    np.testing.assert_allclose(training[~dropped], 2.0 * inference[~dropped], rtol=1e-6)


def test_a_sequence_longer_than_the_table_is_refused():
    layer, long = block(), np.zeros((2, 10), "int32")
    message = "at most 9 tokens .*Received: token_ids with 10 a row"
    with pytest.raises(ValueError, match=message):
        layer(long, long)
    with pytest.raises(ValueError, match=message):
        layer(keras.Input((10,), dtype="int32"), keras.Input((10,), dtype="int32"))
    layer(long[:, :9], long[:, :9])


def test_a_length_known_only_to_the_running_graph_is_checked_too():
    layer = block()
    spec = tf.TensorSpec((None, None), "int32")
    run = tf.function(layer.call, input_signature=[spec, spec])
    assert run(IDS, SEGMENTS).shape == (2, 5, 12)
    with pytest.raises(tf.errors.InvalidArgumentError, match="longer than the position table"):
        run(np.zeros((1, 10), "int32"), np.zeros((1, 10), "int32"))
