"""The encoder block: the order of its steps, and where its dropout falls."""

import numpy as np
import pytest

from kbert.layers.encoder_block import EncoderBlock

RNG = np.random.default_rng(9)
X = RNG.normal(size=(3, 7, 12)).astype("float32")
BIAS = np.zeros((3, 1, 1, 7), "float32")


def block(**arguments):
    layer = EncoderBlock(
        num_heads=3, intermediate_dim=20, **{"hidden_dropout": 0.0, "attention_dropout": 0.0} | arguments
    )
    layer(X, BIAS)
    layer.set_weights([RNG.normal(size=w.shape) for w in layer.get_weights()])
    return layer


def test_post_norm_residuals():
    """LN(x + sublayer(x)), twice."""
    layer = block()
    x = layer.attention_layer_norm(X + layer.attention(X, BIAS))
    x = layer.feed_forward_layer_norm(x + layer.feed_forward(x))
    np.testing.assert_allclose(layer(X, BIAS), x, atol=1e-5)


def test_the_feed_forward_network():
    layer = block(activation="relu").feed_forward
    hidden = np.maximum(np.array(layer.intermediate(X)), 0.0)
    np.testing.assert_allclose(layer(X), layer.output_projection(hidden), atol=1e-4)


def test_dropout_falls_on_the_output_of_both_sublayers():
    layer = block(hidden_dropout=0.9999999)  # drops everything but one number in ten million
    expected = layer.feed_forward_layer_norm(layer.attention_layer_norm(X))
    np.testing.assert_allclose(layer(X, BIAS, training=True), expected, atol=1e-5)


@pytest.mark.parametrize("training", [False, True])
def test_attention_probabilities_on_request(training):
    output, probs = block()(X, BIAS, return_probs=True, training=training)
    assert output.shape == (3, 7, 12) and probs.shape == (3, 3, 7, 7)
    np.testing.assert_allclose(np.sum(probs, axis=-1), 1.0, atol=1e-6)
