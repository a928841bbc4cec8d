"""The masks of a text are those of the training, the guesses and the loss those of the model."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.served_models import make_pipeline
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.inspection.views.masking import mask_text, masked_tokens
from kbert.preprocessing.preprocessor import TextPreprocessor
from kbert.pretraining.masking import TokenMasking
from kbert.stateless_random import fold_in

TEXT, PAIR = "The Filmly is good. A é 中!", "paris was never the capital of"


@pytest.fixture(scope="module")
def model():
    return make_pipeline("fill_mask")[0].model


def training(seed, **options):
    """Padded batch, corrupted batch, and position → label of the training's layer."""
    tokenizer = tiny_tokenizer()
    batch = TextPreprocessor(tokenizer, 19, pair=True)({"text": [TEXT], "text_pair": [PAIR]})
    layer = TokenMasking(tokenizer, max_predictions=19, **options)
    inputs, labels, weights = layer(batch, keys=fold_in(tf.constant([seed], tf.int64), 0))
    count = int(tf.reduce_sum(weights))
    positions = inputs["mask_positions"][0, :count].numpy().tolist()
    return batch, inputs, dict(zip(positions, labels[0, :count].numpy().tolist(), strict=True))


@pytest.mark.parametrize("seed", (0, 2**31 - 2))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mask_rate": 0.5, "whole_word": True},
        {"mask_rate": 1.0, "mask_token_rate": 0.2, "random_token_rate": 0.7, "keep_rate": 0.1},
    ],
)
def test_masks_are_those_of_training(seed, options):
    batch, inputs, labels = training(seed, **options)
    vocabulary = tiny_tokenizer().vocabulary
    masked = mask_text(tiny_tokenizer(), (TEXT, PAIR), seed=seed, sequence_length=19, **options)
    size = int(tf.reduce_sum(tf.cast(batch["padding_mask"], tf.int32)))
    original, corrupted = (part["token_ids"][0, :size].numpy() for part in (batch, inputs))
    assert [token.original for token in masked.tokens] == [vocabulary[n] for n in original]
    assert [token.corrupted for token in masked.tokens] == [vocabulary[n] for n in corrupted]
    assert [token.segment for token in masked.tokens] == batch["segment_ids"][0, :size].numpy().tolist()
    assert {n for n, token in enumerate(masked.tokens) if token.is_chosen} == set(labels)
    for token in masked.chosen:
        same = token.original == token.corrupted
        assert token.kind == ("kept" if same else "[MASK]" if token.corrupted == "[MASK]" else "random")
    assert sum(map(masked.count, ("[MASK]", "random", "kept"))) == len(labels) == len(masked.chosen) > 0
    assert len(masked.tokens) == size and masked.truncated == 0 and masked.loss is None


def test_guesses_and_loss_are_the_models(model):
    _, inputs, labels = training(3, mask_rate=0.4)
    masked = mask_text(tiny_tokenizer(), (TEXT, PAIR), model, mask_rate=0.4, seed=3, sequence_length=19, guesses=4)
    logits = model({name: inputs[name] for name in model.input})["mlm_logits"][0, : len(labels)]
    fractions = tf.nn.softmax(tf.cast(logits, tf.float64)).numpy()
    vocabulary = tiny_tokenizer().vocabulary
    for row, (place, label) in zip(fractions, labels.items(), strict=True):
        token = masked.tokens[place]
        best = np.argsort(-row, kind="stable")[:4]
        assert [guess for guess, _ in token.guesses] == [vocabulary[n] for n in best]
        assert [fraction for _, fraction in token.guesses] == pytest.approx(row[best], abs=1e-5)
        assert token.label_probability == pytest.approx(row[label], abs=1e-5)
    expected = model.default_loss()["mlm_logits"](
        tf.constant([list(labels.values())]), logits[tf.newaxis], tf.ones([1, len(labels)])
    )
    assert masked.loss == pytest.approx(float(expected), rel=1e-4)


def test_left_to_right_models_and_other_heads_are_not_asked():
    causal = randomise(kbert.BertPretrainer(tiny_config(causal=True, pooled_token="last"), next_sentence=False))
    for model in (causal, make_pipeline("single")[0].model):
        masked = mask_text(tiny_tokenizer(), (TEXT,), model, seed=4, sequence_length=19)
        assert masked.chosen and masked.loss is None and all(token.guesses == () for token in masked.tokens)


def test_tokens_that_did_not_fit_are_counted():
    masked = mask_text(tiny_tokenizer(), ("good " * 30, "bad " * 3), sequence_length=19)
    assert len(masked.tokens) == 19 and masked.truncated == 17


@pytest.mark.parametrize("text", ["", " ", "\n\u200d"])
def test_a_text_without_words(model, text):
    masked = mask_text(tiny_tokenizer(), (text,), model, sequence_length=19)
    assert [token.original for token in masked.tokens] == ["[CLS]", "[SEP]"] and not masked.chosen


def test_wrong_rates_are_refused():
    with pytest.raises(ValueError, match="must be 1"):
        mask_text(tiny_tokenizer(), (TEXT,), mask_token_rate=0.9)


def test_a_row_of_a_batch():
    logits = np.log([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1]])
    tokens = masked_tokens([9, 1, 0], [0, 0, 1], [1, 2], [2, 1], ["a", "[MASK]", "b"], logits, guesses=2)
    assert [token.original for token in tokens] == ["[9]", "b", "[MASK]"]
    assert [token.kind for token in tokens] == ["", "[MASK]", "random"]
    assert [name for name, _ in tokens[1].guesses] == ["b", "[MASK]"]
    assert [token.label_probability for token in tokens] == [None, pytest.approx(0.7), pytest.approx(0.3)]
