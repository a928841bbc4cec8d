"""Embeddings, attention and hidden states that the page shows are the encoder's, to 1e-6."""

import numpy as np
import pytest
from helpers.served_models import make_pipeline

from kbert.inspection.analysis.attention_heads import STATISTICS, attention_statistics
from kbert.preprocessing.preprocessor import TextPreprocessor

TEXT, PAIR = "The film is good.", "paris was never the capital"


@pytest.fixture(scope="module")
def computed():
    """Tokens, hidden states [L + 1, S, H] and attention [L, A, S, S] of the encoder on the same row."""
    pipeline, _ = make_pipeline("encoder")
    batch = TextPreprocessor(pipeline.tokenizer, 19, pair=True)({"text": [TEXT], "text_pair": [PAIR]})
    size = int(batch["padding_mask"].numpy().sum())
    batch = {name: value[:, :size] for name, value in batch.items()}
    outputs = pipeline.model.with_outputs("hidden_states", "attention_probs")(batch)
    states = np.stack([state[0] for state in outputs["hidden_states"]])
    probs = np.stack([layer[0] for layer in outputs["attention_probs"]])
    tokens = [pipeline.tokenizer.vocabulary[n] for n in batch["token_ids"][0].numpy()]
    assert size < 19
    return tokens, states, probs


@pytest.mark.parametrize("layer, head", [(0, 0), (2, 1), (1, None), (None, 0), (None, None)])
def test_attention(ask, computed, layer, head):
    tokens, states, probs = computed
    answer = ask("attention", model="encoder", text=TEXT, text_pair=PAIR, layer=layer, head=head)
    assert [token["token"] for token in answer["tokens"]] == tokens
    assert (answer["layers"], answer["heads"]) == probs.shape[:2] == (3, 2)
    chosen = probs if layer is None else probs[layer : layer + 1]
    chosen = chosen if head is None else chosen[:, head : head + 1]
    np.testing.assert_allclose(answer["probabilities"], chosen.mean(axis=(0, 1)), atol=1e-6)
    np.testing.assert_allclose(np.sum(answer["probabilities"], axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose(answer["hidden_norms"], np.linalg.norm(states, axis=-1), rtol=1e-5)
    statistics = attention_statistics(probs, tokens)
    for name in STATISTICS:
        found = [[head[name] for head in layer] for layer in answer["statistics"]]
        np.testing.assert_allclose(found, statistics[name], atol=1e-6)


@pytest.mark.parametrize("position", [0, 4, 11])
def test_the_input_representation_is_a_sum(ask, computed, position):
    _, states, _ = computed
    answer = ask("input_representation", model="encoder", text=TEXT, text_pair=PAIR, position=position)
    vectors = {name: np.array(vector) for name, vector in answer["vectors"].items()}
    np.testing.assert_allclose(vectors["token"] + vectors["segment"] + vectors["position"], vectors["sum"], atol=1e-6)
    np.testing.assert_allclose(vectors["normalized"], states[0, position], atol=1e-6)
    block = make_pipeline("encoder")[0].model.embeddings
    token = answer["tokens"][position]
    tables = {"token": token["id"], "segment": token["segment"], "position": position}
    for name, row in tables.items():
        table = getattr(block, f"{name}_embedding").weights[0].numpy()
        np.testing.assert_allclose(vectors[name], table[row], atol=1e-6)
    norms = {name: np.linalg.norm(vector) for name, vector in vectors.items()}
    assert answer["norms"] == pytest.approx(norms, rel=1e-5) and answer["vectors_available"] is True


def test_without_a_position_only_the_tokens(ask):
    answer = ask("input_representation", model="encoder", text=TEXT)
    assert answer["vectors_available"] is True and "vectors" not in answer and answer["tokens"][1]["token"] == "the"
    assert ask("input_representation", model=None, text=TEXT)["vectors_available"] is False


@pytest.mark.parametrize(
    "view, question, expected",
    [
        ("input_representation", {"model": "encoder", "position": 7}, "a whole number from 0 to 6. Received: 7"),
        ("input_representation", {"model": None, "position": 0}, "Expected a model. Received: none"),
        ("attention", {"model": None}, "Expected a model. Received: none"),
        ("attention", {"model": "encoder", "layer": 3}, "`layer`: expected a whole number from 0 to 2. Received: 3"),
        ("attention", {"model": "encoder", "head": -1}, "`head`: expected a whole number from 0 to 1. Received: -1"),
    ],
)
def test_what_there_is_not(ask, view, question, expected):
    assert expected in ask(view, 400, text=TEXT, **question)["error"]
