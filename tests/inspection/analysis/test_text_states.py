"""Hidden states and attention are the encoder's own."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert
from kbert import BertEncoder
from kbert.inspection.analysis.states import mean_states, text_states, word_states
from kbert.inspection.views.embeddings import input_row
from kbert.inspection.views.masking import mask_text
from kbert.inspection.views.pairs import draw_pair
from kbert.preprocessing.preprocessor import TextPreprocessor

TEXTS = ["The film is good.", ("a bad film !", "was it ? never"), ""]


@pytest.fixture(scope="module")
def encoder():
    return randomise(BertEncoder(tiny_config(), outputs=("hidden_states", "attention_probs")), scale=0.3)


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer()


def test_the_numbers_are_the_encoders(encoder, tokenizer):
    for text, states in zip(TEXTS, text_states(encoder, tokenizer, TEXTS), strict=True):
        pair = isinstance(text, tuple)
        columns = {"text": [text[0]], "text_pair": [text[1]]} if pair else {"text": [text]}
        batch = TextPreprocessor(tokenizer, 19, pair=pair)(columns)  # padded
        size = len(states.tokens)
        assert states.token_ids.tolist() == batch["token_ids"][0, :size].numpy().tolist()
        assert states.segment_ids.tolist() == batch["segment_ids"][0, :size].numpy().tolist()
        assert states.tokens[0] == "[CLS]" and states.tokens[-1] == "[SEP]" and states.truncated == 0
        outputs = encoder(batch, training=False)
        np.testing.assert_allclose(states.hidden_states, [h[0, :size] for h in outputs["hidden_states"]], atol=1e-6)
        probs = [p[0, :, :size, :size] for p in outputs["attention_probs"]]
        np.testing.assert_allclose(states.attention, probs, atol=1e-6)
        np.testing.assert_allclose(states.attention.sum(axis=-1), 1, atol=1e-6)
        alone = encoder({name: tf.constant(value) for name, value in states.batch.items()})
        np.testing.assert_allclose(states.hidden_states, [h[0] for h in alone["hidden_states"]], atol=1e-6)


def test_a_long_text_is_cut_and_says_so(encoder, tokenizer):
    (states,) = text_states(encoder, tokenizer, ["film " * 30], sequence_length=100)
    assert len(states.tokens) == 19 and states.truncated == 30 + 2 - 19


def test_a_model_of_one_segment_reads_no_pairs(tokenizer):
    model = kbert.BertPretrainer(tiny_config(num_segments=1))
    pair = ("a film .", "never !")
    for view in (
        lambda texts: text_states(model.encoder, tokenizer, [texts]),
        lambda texts: input_row(model.encoder, tokenizer, texts),
        lambda texts: mask_text(tokenizer, texts, model, sequence_length=19),
    ):
        view(pair[:1])
        with pytest.raises(ValueError, match="The model has only one segment, so it cannot read a pair of texts"):
            view(pair)
    with pytest.raises(ValueError, match="The model has only one segment"):
        draw_pair(tokenizer, pair, model, sequence_length=19)
    without_head = kbert.BertPretrainer(tiny_config(num_segments=1), next_sentence=False)
    assert draw_pair(tokenizer, pair, without_head, sequence_length=19).is_next is None


def test_encoders_of_packed_rows(encoder, tokenizer):
    packed = BertEncoder(tiny_config(), num_parts=3)
    packed.set_weights(encoder.get_weights())
    for one, other in zip(text_states(packed, tokenizer, TEXTS), text_states(encoder, tokenizer, TEXTS), strict=True):
        np.testing.assert_allclose(one.hidden_states, other.hidden_states, atol=1e-6)
    words = [["a", "film"], ["good"]]
    np.testing.assert_allclose(word_states(packed, tokenizer, words), word_states(encoder, tokenizer, words), atol=1e-6)


def test_a_word_has_the_states_of_its_first_token(encoder, tokenizer):
    sentences = [["the", "films", "\u200b", "good"], ["never"], ["a", "bad", "film", "!"]] * 11  # 33: two batches
    found = word_states(encoder, tokenizer, sentences)
    row = 0
    for words in sentences:
        pieces = [tokenizer([word]).to_list()[0] or [tokenizer.unk_id] for word in words]
        ids = np.array([[tokenizer.cls_id, *(n for piece in pieces for n in piece), tokenizer.sep_id]], "int32")
        states = encoder({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids >= 0})["hidden_states"]
        place = 1
        for piece in pieces:
            np.testing.assert_allclose(found[row], [layer[0, place] for layer in states], atol=1e-5)
            row, place = row + 1, place + len(piece)
    assert len(found) == row and found.shape[1:] == (3, 12)


def test_long_sentences_are_read_in_windows(encoder, tokenizer):
    assert np.isfinite(word_states(encoder, tokenizer, [["film"] * 50, ["a"]])).all()


def test_the_mean_of_a_text_leaves_padding_out(encoder, tokenizer):
    texts = ["The film is good.", "bad"] * 17  # 34: two batches
    found = mean_states(encoder, tokenizer, texts)
    for row, states in enumerate(text_states(encoder, tokenizer, texts)):
        np.testing.assert_allclose(found[row], states.hidden_states.mean(axis=1), atol=1e-5)
    pairs = [("a film", "good"), ("never", "bad film !")]
    found = mean_states(encoder, tokenizer, pairs)
    for row, states in enumerate(text_states(encoder, tokenizer, pairs)):
        np.testing.assert_allclose(found[row], states.hidden_states.mean(axis=1), atol=1e-5)
