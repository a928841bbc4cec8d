"""Exact search by embeddings, against all similarities sorted; search through an index, against the exact one."""

import sys
import types

import numpy as np
import pytest
from helpers.paths import ROOT
from helpers.slow_but import slow_but
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.corpus.installed_prose import installed_documents
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


@pytest.mark.usefixtures("eagerly")
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
        (({"text": ["a"]}, np.ones((1, 3)), 1), "`collection` as a list of strings. Received: dict; give one of its"),
        ((np.ones((2, 3)), types.SimpleNamespace(columns=["text"]), 1), "`queries` as .*; give one of its columns"),
    )


def test_what_it_refuses_before_it_embeds_the_collection(monkeypatch):
    pipeline = kbert.build_pipeline(kbert.BertEncoder(tiny_config(num_layers=1)), tiny_tokenizer())
    monkeypatch.setattr(pipeline, "predict", lambda *args, **options: pytest.fail("It embeds first."))
    wrong_inputs(
        lambda arguments: kbert.search(pipeline, ["good film", "paris"], *arguments),
        ((["paris"], 0), "`k` must be a positive integer"),
        ((["paris"], 3), "`k` of at most 2"),
        (("paris", 1), "`queries` as a list of strings"),
        ((np.ones(3), 1), "`queries` as embeddings"),
    )


def made_up_vectors():
    return np.random.default_rng(0).normal(size=(1000, 16)).astype("float32")


def sentence_vectors():
    """kbert-mini's embeddings of some 2,000 sentences."""
    model = kbert.load_pretrained(ROOT / "saved_models/kbert-mini", "encoder")
    texts = [sentence for _, _, sentences in installed_documents(("python",), 2000) for sentence in sentences]
    return kbert.build_pipeline(model, sequence_length=32).predict(texts, verbose=0)["embedding"]


@pytest.mark.parity
@pytest.mark.parametrize("make", slow_but((made_up_vectors,), (made_up_vectors, sentence_vectors)))
def test_an_index_finds_what_the_exact_search_finds(tmp_path, make):
    faiss = pytest.importorskip("faiss")
    vectors = make()
    queries = vectors[::10] + 0.1 * np.roll(vectors[::10], 1, axis=0)
    index = kbert.SearchIndex(None, vectors)
    assert index.shape == vectors.shape
    exact, found = (kbert.search(None, collection, queries, 10) for collection in (vectors, index))
    is_right = [np.isin(*rows).mean() for rows in zip(found.rows, exact.rows, strict=True)]
    assert np.mean(is_right) > 0.99
    same = found.rows == exact.rows
    np.testing.assert_allclose(found.scores[same], exact.scores[same], atol=1e-5)

    index.faiss.hnsw.efSearch = 500
    file = tmp_path / "sentences.index"
    index.save(file)
    loaded = kbert.SearchIndex.load(file)
    assert loaded.faiss.hnsw.efSearch == 500 and faiss.read_index(str(file)).ntotal == len(vectors)
    expected = kbert.search(None, index, queries, 10)
    np.testing.assert_array_equal(kbert.search(None, loaded, queries, 10).rows, expected.rows)

    content = file.read_bytes()
    for damaged in (b"", content[:20], content[:-1], content[:5000] + bytes([content[5000] ^ 1]) + content[5001:]):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match="sentences.index is damaged"):
            kbert.SearchIndex.load(file)
    wrong_inputs(
        lambda arguments: kbert.search(None, *arguments),
        ((index, queries, len(vectors) + 1), f"`k` of at most {len(vectors)}"),
        ((index, queries[:, :7], 1), f"one length. Received: {vectors.shape[1]} and 7"),
        ((index, ["a"], 1), "to embed the queries. Received: None"),
    )


@pytest.mark.parity
@pytest.mark.usefixtures("eagerly")
def test_an_index_embeds_strings_and_always_finds_k_texts():
    pytest.importorskip("faiss")
    pipeline = kbert.build_pipeline(randomise(kbert.BertEncoder(tiny_config(num_layers=1))), tiny_tokenizer())
    index = kbert.SearchIndex(pipeline, ["good film", "paris", "never"] + ["the capital of france"] * 300)
    found = kbert.search(pipeline, index, ["paris", "never"], k=303)  # links do not lead to all of so many equal ones
    assert found.rows[:, 0].tolist() == [1, 2]
    assert np.sort(found.rows, axis=1).tolist() == [list(range(303))] * 2


def test_an_index_without_faiss_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "faiss", None)
    for call in (lambda: kbert.SearchIndex(None, np.ones((2, 3))), lambda: kbert.SearchIndex.load(tmp_path / "x")):
        with pytest.raises(ImportError, match="pip install faiss-cpu, which the extra `search` of kbert installs"):
            call()
