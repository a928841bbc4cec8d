"""Answers from logits: values, ties, shapes, configs, errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.compare import softmax
from helpers.tiny_bert import VOCABULARY, tiny_tokenizer

from kbert.answers.labels import ChoiceAnswers, ClassificationAnswers, RegressionAnswers
from kbert.answers.pretraining import FillMaskAnswers, NextSentenceAnswers

LOGITS = np.random.default_rng(0).normal(0, 3, [7, 3]).astype("float32")


def test_classification():
    answers = ClassificationAnswers(["a", "b", "ß 中"])({"logits": tf.constant(LOGITS)})
    assert [label.decode() for label in answers["label"].numpy()] == [
        ["a", "b", "ß 中"][i] for i in LOGITS.argmax(axis=1)
    ]
    np.testing.assert_allclose(answers["probabilities"], softmax(LOGITS), atol=1e-6)


def test_of_equal_logits_the_first_label_wins():
    assert ClassificationAnswers(["a", "b"])({"logits": tf.zeros([1, 2])})["label"].numpy() == [b"a"]


def test_extreme_logits_stay_finite():
    logits = tf.constant([[1e30, -1e30], [-3e38, -3e38]])
    np.testing.assert_allclose(
        ClassificationAnswers(["a", "b"])({"logits": logits})["probabilities"], [[1, 0], [0.5, 0.5]]
    )


def test_half_precision_scores_give_float32_probabilities():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        layer = ClassificationAnswers(["a", "b", "c"])
        answers = layer({"logits": tf.constant(LOGITS)})
    finally:
        keras.config.set_dtype_policy("float32")
    np.testing.assert_allclose(answers["probabilities"], softmax(LOGITS), atol=1e-6)  # not rounded to float16 before


def test_regression():
    answers = RegressionAnswers()({"score": tf.constant([1.5, -2.0], tf.float16)}, {"token_ids": tf.zeros([2, 3])})
    assert answers["score"].dtype == tf.float32 and answers["score"].numpy().tolist() == [1.5, -2.0]


def test_fill_mask():
    logits = np.random.default_rng(1).normal(0, 4, [3, 2, len(VOCABULARY)]).astype("float32")
    answers = FillMaskAnswers(tiny_tokenizer(), top_k=4)(
        {"mlm_logits": tf.constant(logits)}, {"count": tf.constant([2, 1, 0])}
    )
    tokens, probabilities = answers["tokens"].numpy(), answers["probabilities"].numpy()
    assert tokens.shape == probabilities.shape == (3, 2, 4) and answers["count"].numpy().tolist() == [2, 1, 0]
    for row, mask in [(0, 0), (0, 1), (1, 0)]:
        best = np.argsort(-logits[row, mask])[:4]
        assert [token.decode() for token in tokens[row, mask]] == [VOCABULARY[i] for i in best]
        np.testing.assert_allclose(probabilities[row, mask], softmax(logits)[row, mask][best], rtol=1e-5)
    for row, mask in [(1, 1), (2, 0), (2, 1)]:
        assert set(tokens[row, mask]) == {b""} and not probabilities[row, mask].any()


def test_next_sentence():
    logits = np.array([[2.0, 0.0], [0.0, 2.0], [-900.0, 900.0]], "float32")
    answers = NextSentenceAnswers()({"nsp_logits": tf.constant(logits, tf.float64)})
    np.testing.assert_allclose(answers["is_next"], [1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2)), 0], atol=1e-6)
    assert answers["is_next"].dtype == tf.float32
    layer = NextSentenceAnswers(name="x")
    assert NextSentenceAnswers.from_config(layer.get_config()).name == "x"


CHOICE_LOGITS = [[0.0, 3.0, 1.0], [2.0, 2.0, 9.0], [-5.0, 7.0, 7.0], [1.0, 1.0, 1.0]]
THERE = [[True, True, True], [True, True, False], [True, False, False], [False, False, False]]


def test_the_best_of_what_is_there():
    mask = tf.constant(THERE)[:, :, None] & tf.constant([True, False])
    answers = ChoiceAnswers()({"logits": tf.constant(CHOICE_LOGITS)}, {"padding_mask": mask})
    assert answers["choice"].numpy().tolist() == [1, 0, 0, -1]  # of equally good ones the first
    powers = np.exp(CHOICE_LOGITS) * THERE
    expected = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-9)
    np.testing.assert_allclose(answers["probabilities"], expected, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_no_rows_and_no_choices(shape):
    answers = ChoiceAnswers()({"logits": tf.zeros(shape)}, {"padding_mask": tf.zeros((*shape, 4), tf.bool)})
    assert answers["choice"].numpy().tolist() == [-1] * shape[0]
    assert answers["probabilities"].shape == shape


def test_fill_mask_on_symbols():
    layer = FillMaskAnswers(tiny_tokenizer(), top_k=2)
    symbols = {"mlm_logits": keras.Input((4, len(VOCABULARY)))}, {"count": keras.Input((), dtype="int32")}
    traced = keras.layers.Layer.compute_output_spec(layer, *symbols)
    for name, spec in layer(*symbols).items():
        assert (spec.shape, spec.dtype) == (traced[name].shape, traced[name].dtype)


def test_configs():
    for layer in (ClassificationAnswers(["a", "b"]), RegressionAnswers(), FillMaskAnswers(tiny_tokenizer(), top_k=3)):
        copy = type(layer).from_config(layer.get_config())
        assert copy.get_config() == layer.get_config()


def test_errors():
    with pytest.raises(ValueError, match="`labels` must be a list, each item a string"):
        ClassificationAnswers([0, 1])
    with pytest.raises(ValueError, match=r"as many labels as logits \(3\)"):
        ClassificationAnswers(["a", "b"])({"logits": tf.constant(LOGITS)})
    with pytest.raises(ValueError, match="`top_k` must be a positive integer"):
        FillMaskAnswers(tiny_tokenizer(), top_k=0)
    with pytest.raises(ValueError, match=r"more than the vocabulary \(25 tokens\)"):
        FillMaskAnswers(tiny_tokenizer(), top_k=26)({"mlm_logits": tf.zeros([1, 1, 25])}, {"count": tf.constant([1])})
