"""Exact search by embeddings, against all similarities sorted."""

import numpy as np
import pytest
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.pipelines import search as search_module


@pytest.mark.parametrize("k", [1, 3, 40])
def test_it_finds_the_most_similar(monkeypatch, k):
    monkeypatch.setattr(search_module, "_TEXTS", 7)
    monkeypatch.setattr(search_module, "_QUERIES", 4)
    rng = np.random.default_rng(k)
    texts, queries = rng.normal(size=(40, 5)), rng.normal(size=(9, 5))
    unit = [array / np.linalg.norm(array, axis=1, keepdims=True) for array in (texts, queries)]
    similarities = unit[1] @ unit[0].T
    found = kbert.search(None, texts, queries, k)
    np.testing.assert_array_equal(found.rows, np.argsort(-similarities, axis=1)[:, :k])
    np.testing.assert_allclose(found.scores, -np.sort(-similarities, axis=1)[:, :k], atol=1e-6)


def test_equal_texts_come_in_their_order():
    texts = np.ones((4, 2), "float32")
    assert kbert.search(None, texts, texts[:1], 4).rows.tolist() == [[0, 1, 2, 3]]


def test_it_embeds_strings():
    encoder = randomise(kbert.BertEncoder(tiny_config(num_layers=1)))
    pipeline = kbert.build_pipeline(encoder, tiny_tokenizer())
    texts = ["good film", "paris", "never", "the capital of france"]
    found = kbert.search(pipeline, texts, ["paris", "never"], k=2)
    assert found.rows[:, 0].tolist() == [1, 2]
    np.testing.assert_allclose(found.scores[:, 0], 1.0, atol=1e-6)
    stored = pipeline.predict(texts, verbose=0)["embedding"]
    np.testing.assert_array_equal(kbert.search(pipeline, stored, ["paris", "never"], k=2).rows, found.rows)


def test_what_it_refuses():
    wrong_inputs(
        lambda arguments: kbert.search(None, *arguments),
        ((np.ones((2, 3)), np.ones((1, 3)), 3), "`k` of at most 2"),
        ((np.ones((2, 3)), np.ones((1, 3)), 0), "k"),
        ((np.ones((2, 3)), np.ones((1, 4)), 1), "one length. Received: 3 and 4"),
        ((np.ones((2, 3)), np.ones(3), 1), "`queries` as embeddings"),
        ((np.full((2, 3), np.nan), np.ones((1, 3)), 1), "finite"),
        ((["a"], np.ones((1, 3)), 1), "to embed the collection. Received: None"),
        (("a", np.ones((1, 3)), 1), "list of strings"),
        (([], np.ones((1, 3)), 1), "list of strings"),
    )
