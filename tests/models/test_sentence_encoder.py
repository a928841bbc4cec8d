"""The model of embeddings: pooling, its gradient in parts, and what it refuses."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_bert import TEXTS, randomise, tiny_config, tiny_tokenizer
from helpers.wrong_values import wrong_values

import kbert
from kbert.answers.embedding import EmbeddingAnswers
from kbert.layers import EmbeddingPooling
from kbert.models import BertSentenceEncoder
from kbert.models.train_step import train_with_cached_embeddings

MASK = np.array([[1, 1, 0, 0], [1, 1, 1, 1]], bool)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("pooling", ["mean", "max", "cls"])
def test_it_pools_as_the_answers_of_an_encoder(pooling, normalize):
    states = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    expected = EmbeddingAnswers(pooling, normalize)({"sequence_output": states}, {"padding_mask": MASK})["embedding"]
    np.testing.assert_allclose(EmbeddingPooling(pooling, normalize)(states, MASK), expected, atol=1e-6)


def test_rows_without_tokens_are_zeros():
    states = np.ones((1, 4, 3), "float32")
    for pooling in ("mean", "max"):
        np.testing.assert_array_equal(EmbeddingPooling(pooling)(states, MASK[:1] & False), np.zeros((1, 3)))


@pytest.mark.slow  # test_train_in_parts.py
def test_the_gradient_in_parts_has_the_same_dropout_twice():
    """With one part the cached step is the plain one, dropout and all."""
    ids = np.random.default_rng(0).integers(5, 20, (8, 6)).astype("int32")
    inputs = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids > 0}
    numbers = {"embedding": 1 + np.arange(8, dtype="int32").reshape(4, 2)}

    def train(step):
        keras.utils.set_random_seed(3)
        model = randomise(BertSentenceEncoder(tiny_config(num_layers=1, hidden_dropout=0.3)), scale=0.3)
        model.compile(keras.optimizers.SGD(0.1))
        data = tf.nest.map_structure(tf.constant, (inputs, numbers))
        logs = tf.function(step)(model, data)
        return float(logs["loss"]), model.get_weights()

    loss, weights = train(lambda model, data: model.train_step(data))
    cached_loss, cached_weights = train(lambda model, data: train_with_cached_embeddings(model, data, 1))
    np.testing.assert_allclose(cached_loss, loss, rtol=1e-5)
    for cached, plain in zip(cached_weights, weights, strict=True):
        np.testing.assert_allclose(cached, plain, atol=2e-5)


@pytest.mark.usefixtures("eagerly")
def test_it_is_saved_loaded_and_stands_on_an_encoder(tmp_path):
    model = randomise(BertSentenceEncoder(tiny_config(num_layers=1), pooling="max", dimensions=(4,), temperature=0.1))
    pipeline = kbert.build_pipeline(model, tiny_tokenizer())
    expected = pipeline.predict(TEXTS, verbose=0)["embedding"]
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1.0, atol=1e-6)
    kbert.save_pretrained(pipeline, tmp_path / "model")
    loaded = kbert.load_pretrained(tmp_path / "model")
    assert loaded.default_loss()["embedding"].get_config() == model.default_loss()["embedding"].get_config()
    found = kbert.build_pipeline(loaded).predict(TEXTS, verbose=0)["embedding"]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    encoder = kbert.load_pretrained(tmp_path / "model", task="encoder", outputs=("sequence_output", "pooled_output"))
    other = kbert.build_pipeline(encoder).predict(TEXTS, verbose=0)["embedding"]
    np.testing.assert_allclose(other, expected, atol=1e-6)
    task = kbert.load_pretrained(tmp_path / "model", task="encoder", normalize=False).pretrained.settings.task
    assert (task.pooling, task.normalize) == ("max", False)
    warmer = kbert.load_pretrained(tmp_path / "model", task="similarity", temperature=0.5)
    assert warmer.temperature == 0.5 and warmer.pretrained.report.newly_initialised == []
    pipeline.save(tmp_path / "it.keras")
    again = keras.models.load_model(tmp_path / "it.keras").predict(TEXTS, verbose=0)["embedding"]
    np.testing.assert_allclose(again, expected, atol=1e-6)


def test_wrong_values_are_errors():
    wrong_values(
        functools.partial(BertSentenceEncoder, tiny_config(num_layers=1)),
        ("pooling", "sum", "one of"),
        ("loss_name", "triplet", "one of"),
        ("temperature", 0, "above 0"),
        ("dimensions", (12,), "from 1 to 11"),
        ({"normalize": 2}, "normalize"),
        ({"symmetric": "yes"}, "symmetric"),
        error=(ValueError, TypeError),
    )
    encoder = kbert.BertEncoder(tiny_config(num_layers=1), num_parts=2)
    with pytest.raises(ValueError, match="plain rows. Received: num_parts=2"):
        BertSentenceEncoder(encoder)
