"""The masked-LM head: gathered = everywhere, tied and untied tables."""

import keras
import numpy as np
import pytest

from kbert.layers.embedding_block import TokenEmbedding
from kbert.layers.masked_lm_head import MaskedLMHead

RNG = np.random.default_rng(4)
X = RNG.normal(size=(3, 7, 12)).astype("float32")
PLACES = np.array([[6, 1, 1, 0], [0, 0, 2, 5], [3, 4, 5, 6]], "int32")


def table():
    layer = TokenEmbedding(37, 12)
    layer.build()
    return layer


@pytest.mark.parametrize("tied", [True, False])
def test_gathered_positions_equal_the_head_on_every_position(tied):
    head = MaskedLMHead(token_embedding=table()) if tied else MaskedLMHead(vocabulary_size=37)
    everywhere = np.array(head(X, np.tile(np.arange(7, dtype="int32"), (3, 1))))  # [B, S, V]
    expected = np.take_along_axis(everywhere, PLACES[:, :, None], axis=1)
    np.testing.assert_allclose(head(X, PLACES), expected, atol=1e-6)


def test_equals_numpy():
    embedding = table()
    head = MaskedLMHead(token_embedding=embedding, activation="relu")
    head(X, PLACES)
    for variable in head.trainable_variables:
        variable.assign(RNG.normal(size=variable.shape))
    weights = {v.path.split("/", 1)[1]: v.numpy() for v in head.trainable_variables if "masked" in v.path}
    x = np.take_along_axis(X, PLACES[:, :, None], axis=1)
    x = np.maximum(x @ weights["transform/kernel"] + weights["transform/bias"], 0.0)
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    x = x * weights["layer_norm/gamma"] + weights["layer_norm/beta"]
    expected = x @ embedding.embeddings.numpy().T + weights["output_bias"]
    np.testing.assert_allclose(head(X, PLACES), expected, rtol=1e-4, atol=1e-4)


def test_tied_and_untied_hold_the_right_variables():
    embedding = table()
    tied, untied = MaskedLMHead(token_embedding=embedding), MaskedLMHead(vocabulary_size=37)
    tied(X, PLACES), untied(X, PLACES)
    assert any(v is embedding.embeddings for v in tied.variables)
    assert [v.shape for v in untied.variables if v.name == "output_embeddings"] == [(37, 12)]
    assert np.all(tied.output_bias.numpy() == 0.0)


def test_logits_are_float32_in_mixed_precision():
    head = MaskedLMHead(vocabulary_size=37, dtype="mixed_bfloat16")
    assert keras.backend.standardize_dtype(head(X, PLACES).dtype) == "float32"


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_the_product_with_a_tied_table_runs_in_the_compute_dtype(policy, monkeypatch):
    """Inside another layer Keras would leave the table, and so the widest product of BERT, in float32."""
    products, call = [], TokenEmbedding.call

    def recorded(self, inputs, reverse=False):
        products.append(call(self, inputs, reverse))
        return products[-1]

    monkeypatch.setattr(TokenEmbedding, "call", recorded)
    full, half = table(), TokenEmbedding(37, 12, dtype=policy)
    half.build()
    half.embeddings.assign(full.embeddings)
    narrow, wide = MaskedLMHead(half, dtype=policy), MaskedLMHead(full)
    narrow(X, PLACES), wide(X, PLACES)
    narrow.set_weights(wide.get_weights())
    products.clear()
    scores = narrow(X, PLACES)
    assert [keras.backend.standardize_dtype(one.dtype) for one in products] == [policy.removeprefix("mixed_")]
    assert keras.backend.standardize_dtype(half.embeddings.dtype) == "float32"
    assert keras.backend.standardize_dtype(scores.dtype) == "float32"
    np.testing.assert_allclose(scores, wide(X, PLACES), rtol=2e-2, atol=5e-3)


def test_a_tied_head_comes_back_from_its_config():
    head = MaskedLMHead(token_embedding=table())
    again = MaskedLMHead.from_config(head.get_config())
    assert isinstance(again.token_embedding, TokenEmbedding)
    assert again.token_embedding.vocabulary_size == 37


def test_one_source_of_the_table_is_needed():
    with pytest.raises(ValueError, match="token_embedding=None, vocabulary_size=None"):
        MaskedLMHead()
    with pytest.raises(ValueError, match="vocabulary_size=37"):
        MaskedLMHead(token_embedding=table(), vocabulary_size=37)
