"""Integrated gradients: completeness, on a function with a known answer and on every kind of model."""

import keras
import numpy as np
import pytest
from helpers.slow_but import slow_but
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

from kbert import BertClassifier, BertPretrainer, BertRegressor, BertSpanExtractor, BertTagger
from kbert.inspection.analysis.attributions import (
    answer_from_vectors,
    integrated_gradients,
    mask_positions,
    token_attributions,
)
from kbert.inspection.analysis.states import text_states

ONE = tiny_config(num_layers=1)
MODELS = {
    "classification": lambda: BertClassifier(tiny_config(), num_labels=3),
    "multi-label": lambda: BertClassifier(ONE, num_labels=3, multi_label=True),
    "regression": lambda: BertRegressor(ONE),
    "span": lambda: BertSpanExtractor(ONE),
    "tagging": lambda: BertTagger(ONE, num_labels=3),
    "masked_lm": lambda: BertPretrainer(ONE, next_sentence=False),
    "untied": lambda: BertPretrainer(ONE, tied=False),
    "packed": lambda: BertPretrainer(ONE, num_parts=2),
    "left to right": lambda: BertPretrainer(tiny_config(num_layers=1, causal=True, pooled_token="last")),
    "sinusoidal": lambda: BertRegressor(tiny_config(num_layers=1, position_embedding="sinusoidal")),
    "next_sentence": lambda: BertPretrainer(ONE, masked_lm=False),
}
TOKENIZER = tiny_tokenizer(special_tokens_in_text=True)
TEXT = ("the [MASK] film is very good", "paris was never bad")


# A head of each kind; the others have the same heads, other layers before them, or another number of outputs.
HEADS = ("classification", "span", "tagging", "masked_lm", "next_sentence")


@pytest.fixture(scope="module", params=slow_but(HEADS, MODELS))
def model(request):
    return randomise(MODELS[request.param](), scale=0.2)


def test_a_product_is_shared_among_its_factors():
    """f(x, y) = x²y from (0, 0): ∂f/∂x · x = 2x²y, of which two thirds remain on the way; y gets one third."""

    def function(points):
        x, y = points[:, 0], points[:, 1]
        return x * x * y, np.stack([2 * x * y, x * x], axis=1)

    attributions, check = integrated_gradients(function, np.array([3.0, 2.0]), np.zeros(2))
    np.testing.assert_allclose(attributions, [12.0, 6.0])
    assert check == {"start": 0, "end": 18, "error": pytest.approx(0, abs=1e-12), "is_complete": True, "steps": 16}


def test_a_step_takes_more_points_and_a_wrong_gradient_is_found_out():
    def steep(points):
        values = 1 / (1 + np.exp(-300 * (points[:, 0] - 0.7)))
        return values, (300 * values * (1 - values))[:, None]

    _, found = integrated_gradients(steep, np.ones(1), np.zeros(1))
    assert found["is_complete"] and found["steps"] > 16
    _, wrong = integrated_gradients(lambda points: (points[:, 0] ** 2, points), np.ones(1), np.zeros(1))
    assert not wrong["is_complete"] and wrong["steps"] == 256 and wrong["error"] == pytest.approx(0.5)


def test_the_heads_give_what_the_model_gives(model):
    """The outputs that are explained, computed from token vectors, are the model's own."""
    (states,) = text_states(model.encoder, TOKENIZER, [TEXT])
    plain = model if model.encoder.num_parts is None else model.with_parts(None)
    batch = dict(states.batch)
    if "mask_positions" in plain.input:
        batch["mask_positions"] = mask_positions(states, model.config.causal)
    expected = plain(batch, training=False)
    vectors = keras.ops.convert_to_numpy(model.encoder.token_embedding.embeddings)[states.token_ids]
    found = answer_from_vectors(model, states)(vectors[None])
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5)


def test_attributions_add_up(model):
    (states,) = text_states(model.encoder, TOKENIZER, [TEXT])
    found = token_attributions(model, TOKENIZER, states)
    assert found.is_complete and found.error <= 0.01
    assert sum(found.attributions) == pytest.approx(found.end - found.start, rel=0.0101, abs=1.1e-4)
    assert len(found.attributions) == len(found.tokens) == len(states.tokens)
    of = dict(zip(found.tokens, found.attributions, strict=True))
    assert of["[CLS]"] == of["[SEP]"] == 0  # they are the same in the baseline, as is the [MASK]
    assert of["[MASK]"] == 0 and any(of.values())


def test_texts_without_an_answer():
    def of(kind, text):
        model = MODELS[kind]()
        (states,) = text_states(model.encoder, TOKENIZER, [text])
        return token_attributions(model, TOKENIZER, states)

    assert of("masked_lm", "no mask here") is None
    assert of("span", "no context") is None
    assert of("next_sentence", "no second text") is None
    assert of("tagging", "") is None
    tagger = BertTagger(ONE, num_labels=1)
    (states,) = text_states(tagger.encoder, TOKENIZER, ["good"])
    assert token_attributions(tagger, TOKENIZER, states, labels=["O"]) is None  # of no word is anything said
