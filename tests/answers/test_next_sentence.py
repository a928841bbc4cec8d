"""The probability that a text follows another: index 0 of the logits, in Python as in the paper's code."""

import numpy as np
import tensorflow as tf
from helpers.tiny_bert import PAIRS, TEXTS, randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.answers.next_sentence import NextSentenceAnswers


def test_probabilities():
    logits = np.array([[2.0, 0.0], [0.0, 2.0], [-900.0, 900.0]], "float32")
    answers = NextSentenceAnswers()({"nsp_logits": tf.constant(logits, tf.float64)})
    np.testing.assert_allclose(answers["is_next"], [1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2)), 0], atol=1e-6)
    assert answers["is_next"].dtype == tf.float32
    layer = NextSentenceAnswers(name="x")
    assert NextSentenceAnswers.from_config(layer.get_config()).name == "x"


def test_the_pipeline():
    model = randomise(kbert.BertPretrainer(tiny_config(), masked_lm=False), scale=0.3)
    pipeline = kbert.build_pipeline(model, tiny_tokenizer())
    columns = {"text": TEXTS, "text_pair": PAIRS}
    batch = pipeline.preprocessor(columns)
    logits = model({name: batch[name] for name in model.input})["nsp_logits"].numpy()
    expected = np.exp(logits[:, 0]) / np.exp(logits).sum(axis=1)
    np.testing.assert_allclose(pipeline.predict(columns, verbose=0)["is_next"], expected, atol=1e-5)
    assert pipeline.settings()["pair"] and batch["segment_ids"].numpy().any()
