"""Pools: what is dropped, where one ends, and which documents are held out."""

import numpy as np
import tensorflow as tf
from helpers.tiny_corpus import make_documents, make_tokenizer

from kbert.corpus.pool import is_held_out, make_pool, text_pools


def test_make_pool_drops_what_is_empty():
    sentences = tf.ragged.constant([[], [1, 2], [], [], [3], [4, 5, 6], []], dtype=tf.int32)
    pool = make_pool(sentences, tf.constant([2, 1, 0, 2, 2]), tf.constant([10, 11, 12, 13, 14], tf.int64))
    assert pool.token_ids.numpy().tolist() == [1, 2, 3, 4, 5, 6]
    assert pool.sentence_lengths.numpy().tolist() == [2, 1, 3]
    assert pool.document_splits.numpy().tolist() == [0, 1, 2, 3]
    assert pool.document_ids.numpy().tolist() == [10, 13, 14]


def test_make_pool_of_nothing():
    pool = make_pool(tf.ragged.constant([[], []], dtype=tf.int32), tf.constant([2]), tf.constant([0], tf.int64))
    assert [part.shape[0] for part in pool] == [0, 0, 1, 0]


def test_text_pools_hold_whole_documents_of_one_epoch():
    documents = make_documents(30, seed=2)
    tokenizer = make_tokenizer()

    def stream():
        for epoch in (4, 5):
            for number, document in enumerate(documents):
                yield epoch, number, document

    pools = list(text_pools(stream, tokenizer, pool_sentences=40).as_numpy_iterator())
    assert [int(epoch) for epoch, _, _ in pools] == sorted(int(epoch) for epoch, _, _ in pools)
    for wanted in (4, 5):
        mine = [(following, pool) for epoch, following, pool in pools if epoch == wanted]
        assert len(mine) > 2
        assert np.concatenate([pool.document_ids for _, pool in mine]).tolist() == list(range(30))
        assert [int(following) for following, _ in mine] == [int(pool.document_ids[-1]) + 1 for _, pool in mine]
        assert all(len(pool.sentence_lengths) >= 40 for _, pool in mine[:-1])
        sizes = np.concatenate([np.diff(pool.document_splits) for _, pool in mine]).tolist()
        assert sizes == [len(document) for document in documents]
        expected = tokenizer(tf.constant([s for document in documents for s in document])).flat_values
        np.testing.assert_array_equal(np.concatenate([pool.token_ids for _, pool in mine]), expected)


def test_text_pools_of_long_and_dirty_sentences():
    sentences = ["a\x00b", "\x00", "c\x00", "\ud800 d", "e " * 5_000_000]  # a lone surrogate is no UTF-8
    tokenizer = make_tokenizer()
    pools = list(text_pools(lambda: iter([(0, 0, sentences), (0, 1, ["f"])]), tokenizer).as_numpy_iterator())
    assert len(pools) == 2  # eight megabytes close a pool
    letters = tokenizer(tf.constant(["ab", "c"])).flat_values.numpy().tolist()
    assert pools[0][2].token_ids[:3].tolist() == letters
    assert pools[0][2].sentence_lengths.tolist() == [2, 1, 2, 5_000_000]


def test_held_out_share():
    documents = [[f"document {i}", "its second sentence"] for i in range(20_000)]
    held_out = [is_held_out(document, 0.05) for document in documents]
    assert abs(np.mean(held_out) - 0.05) < 0.006
    assert not any(is_held_out(document, 0.0) for document in documents[:100])
    more = [is_held_out(document, 0.2) for document in documents]
    assert all(b for a, b in zip(held_out, more, strict=True) if a)  # a larger share only adds to it
    assert is_held_out(["document 3", "its second sentence"], 0.05) == held_out[3]  # by the text alone
