"""Self-attention against a plain NumPy transcription, and its details."""

import keras
import numpy as np
import pytest

from kbert.layers.attention_bias import AttentionBias
from kbert.layers.self_attention import SelfAttention

RNG = np.random.default_rng(8)
X = RNG.normal(size=(4, 7, 12)).astype("float32")
MASK = np.arange(7)[None] < np.array([7, 3, 1, 5])[:, None]


def attention(**arguments):
    layer = SelfAttention(num_heads=3, **arguments)
    layer(X, np.zeros((4, 1, 1, 7), "float32"))
    layer.set_weights([RNG.normal(size=w.shape) * 0.3 for w in layer.get_weights()])
    return layer


def numpy_attention(layer, x, bias):
    """Row by row and head by head, as the paper writes it."""
    weights = {v.path.split("/", 1)[1]: v.numpy() for v in layer.trainable_variables}

    def dense(name, y):
        return y @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]

    output = np.zeros_like(x)
    for b, row in enumerate(x):
        query, key, value = (dense(name, row) for name in ("query", "key", "value"))
        heads = []
        for head in range(3):
            columns = slice(4 * head, 4 * head + 4)
            scores = query[:, columns] @ key[:, columns].T / np.sqrt(4.0) + bias[b, 0]
            probs = np.exp(scores - scores.max(-1, keepdims=True))
            heads.append(probs / probs.sum(-1, keepdims=True) @ value[:, columns])
        output[b] = dense("output", np.concatenate(heads, axis=-1))
    return output


@pytest.mark.parametrize("causal", [False, True])
def test_equals_numpy(causal):
    layer, bias = attention(), np.array(AttentionBias(causal=causal)(MASK))
    np.testing.assert_allclose(layer(X, bias), numpy_attention(layer, X, bias), atol=1e-5)


def test_hidden_keys_have_no_influence_and_probability_zero():
    layer, bias = attention(), AttentionBias()(MASK)
    changed = np.where(MASK[:, :, None], X, 99.0).astype("float32")
    before, probs = layer(X, bias, return_probs=True)
    after = layer(changed, bias)
    np.testing.assert_array_equal(np.array(before)[MASK], np.array(after)[MASK])
    assert np.all(np.array(probs).transpose(0, 3, 1, 2)[~MASK] == 0.0)
    np.testing.assert_allclose(np.sum(probs, -1), 1.0, atol=1e-6)


def test_a_row_of_nothing_but_padding_stays_finite():
    layer, bias = attention(), AttentionBias()(np.zeros((4, 7), bool))
    assert np.all(np.isfinite(layer(X, bias)))


def test_dropout_falls_on_the_probabilities():
    layer = attention(attention_dropout=0.5)
    value, output = layer.value, layer.output_projection
    value.set_weights([np.zeros((12, 12)), np.ones(12)])  # every value vector is 1: the context is the sum of a row
    output.set_weights([np.eye(12), np.zeros(12)])
    bias = np.where(np.arange(7) < 1, 0.0, -10000.0).reshape((1, 1, 1, 7)).astype("float32")  # all weight on one key
    outputs = np.array(layer(X, np.repeat(bias, 4, 0), training=True))
    assert set(np.unique(np.round(outputs, 4))) == {0.0, 2.0}


def test_softmax_is_float32_in_mixed_precision():
    layer = SelfAttention(num_heads=3, dtype="mixed_bfloat16")
    output, probs = layer(X, AttentionBias()(MASK), return_probs=True)
    assert keras.backend.standardize_dtype(output.dtype) == "bfloat16"
    assert keras.backend.standardize_dtype(probs.dtype) == "float32"
    np.testing.assert_allclose(np.sum(probs, -1), 1.0, atol=1e-6)  # bfloat16 would be off by 1e-3


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match="num_heads=5, input width 12"):
        SelfAttention(num_heads=5)(X, np.zeros((4, 1, 1, 7), "float32"))
