"""Sentence pairs: exactly the original's loops on the same draws, its distribution on others, and what draws decide.

The rules are those of paper.md C2; `helpers.reference_pairs` is their plain-Python transcription.
"""

import random

import numpy as np
import pytest
import tensorflow as tf
from helpers.compare import assert_arrays_equal
from helpers.reference_pairs import KeyedDraws, SequentialDraws, make_pairs

from kbert.corpus.pool import TokenPool
from kbert.pretraining.pairs import PairTable, _coin_flips, count_pairs, pair_sentences, sentence_pairs
from kbert.stateless_random import fold_in


def make_documents(number, seed=0, sizes=(1, 1, 2, 3, 5, 20, 60), lengths=(1, 2, 5, 9, 14, 40, 300)):
    """Documents of sentences of tokens; every token of the corpus is another number, so that ranges can be told."""
    rng, token, documents = random.Random(seed), 0, []
    for _ in range(number):
        document = []
        for _ in range(rng.choice(sizes)):
            length = rng.choice(lengths)
            document.append(list(range(token, token + length)))
            token += length
        documents.append(document)
    return documents


def make_pool(documents, ids=None):
    sentences = [sentence for document in documents for sentence in document]
    return TokenPool(
        tf.constant([token for sentence in sentences for token in sentence], tf.int32),
        tf.constant([len(sentence) for sentence in sentences], tf.int32),
        tf.constant(np.cumsum([0] + [len(document) for document in documents]), tf.int32),
        tf.constant(range(len(documents)) if ids is None else ids, tf.int64),
    )


def instances(table):
    """[(tokens of A, tokens of B, is random)] of a table over `make_documents`, where token t lies at place t."""
    columns = (column.numpy().tolist() for column in table[:5])
    return [(range(a, a + a_left), range(b, b + b_left), r) for a, a_left, b, b_left, r in zip(*columns, strict=True)]


def as_lists(pairs):
    return [(list(a), list(b), is_random) for a, b, is_random, *_ in pairs]


@pytest.mark.parametrize(
    "max_tokens, short, next_rate",
    [
        (29, 0.1, 0.5),
        pytest.param(125, 0.5, 0.5, marks=pytest.mark.slow),
        (2, 0.1, 0.2),
        pytest.param(7, 1.0, 0.9, marks=pytest.mark.slow),
    ],
)
def test_equals_the_original_on_the_same_draws(max_tokens, short, next_rate):
    documents = make_documents(60)
    ids = random.Random(1).sample(range(10**12), 60)
    for epoch in (0, 1, 2**33):
        table = sentence_pairs(make_pool(documents, ids), 7, epoch, max_tokens, short, next_rate)
        expected = make_pairs(documents, KeyedDraws(7, epoch, ids), max_tokens, short, next_rate)
        assert as_lists(instances(table)) == as_lists(expected)


@pytest.mark.parametrize("max_tokens", [7, 125])
def test_the_sentences_of_pairs_before_truncation(max_tokens):
    documents = make_documents(60)
    pool = make_pool(documents)
    first_of = np.cumsum([0, *map(len, documents)])  # sentence of each document
    before = np.cumsum([0, *pool.sentence_lengths.numpy()])  # tokens before each sentence
    found = instances(sentence_pairs(pool, 7, 0, max_tokens, 0.3))
    ranges = zip(*(column.numpy().tolist() for column in pair_sentences(pool, 7, 0, max_tokens, 0.3)), strict=True)
    expected = make_pairs(documents, KeyedDraws(7, 0, range(60)), max_tokens, 0.3)
    for (a, b, _), (target, a_first, a_end, b_first, b_end), pair in zip(found, ranges, expected, strict=True):
        *_, document, first, wanted = pair
        assert (a_first, target) == (first_of[document] + first, wanted)
        whole = range(before[a_first], before[a_end]), range(before[b_first], before[b_end])
        if sum(map(len, whole)) <= max_tokens:
            assert whole == (a, b)
        else:
            assert len(a) + len(b) == max_tokens and set(a) <= set(whole[0]) and set(b) <= set(whole[1])


@pytest.mark.slow  # equal on the same draws: above
def test_same_distribution_as_the_original():
    """Number of pairs, fraction of random ones, lengths: equal within their standard errors over many visits."""
    documents = make_documents(40, seed=3)
    pool, epochs = make_pool(documents), range(150)
    draw = tf.function(lambda epoch: sentence_pairs(pool, 5, epoch, 31))
    keyed = [instances(draw(tf.constant(epoch, tf.int64))) for epoch in epochs]
    sequential = [as_lists(make_pairs(documents, SequentialDraws(epoch), 31)) for epoch in epochs]

    def statistics(pairs):
        lengths = np.array([(len(a), len(b)) for a, b, _ in pairs])
        is_random = np.array([r for *_, r in pairs])
        fractions = [is_random.mean(), (lengths.sum(1) == 31).mean(), *(lengths == 1).mean(0), *(lengths == 30).mean(0)]
        return [len(pairs), *lengths.mean(0), *lengths.std(0), *lengths[is_random].mean(0), *fractions]

    ours, theirs = (np.array([statistics(visit) for visit in visits]) for visits in (keyed, sequential))
    error = np.sqrt((ours.var(0) + theirs.var(0)) / len(epochs))
    assert (error > 0).all()
    assert (np.abs(ours.mean(0) - theirs.mean(0)) < 4 * error).all()


def test_rule_5_share_of_random_pairs():
    """One sentence left over: always random. Else half of them: so above 50 % over all."""
    documents = make_documents(300, sizes=(1, 30), lengths=(5, 9))
    is_random = sentence_pairs(make_pool(documents), 3, 0, 25).is_random.numpy()
    assert 0.52 < is_random.mean() < 0.8
    alone = sentence_pairs(make_pool(make_documents(50, sizes=(1,))), 3, 0, 25, random_next_rate=0.0)
    assert len(alone.keys) == 50 and alone.is_random.numpy().all()
    never = sentence_pairs(make_pool(make_documents(50, sizes=(2,), lengths=(3,))), 3, 0, 25, random_next_rate=0.0)
    assert not never.is_random.numpy().any()
    always = sentence_pairs(make_pool(documents), 3, 0, 25, random_next_rate=1.0)
    assert always.is_random.numpy().all()


def test_rule_5_a_single_document_is_its_own_random_one():
    documents = make_documents(1, sizes=(50,), lengths=(4,))
    table = sentence_pairs(make_pool(documents), 6, 0, 17)
    assert 0.3 < table.is_random.numpy().mean() < 0.9
    assert as_lists(instances(table)) == as_lists(make_pairs(documents, KeyedDraws(6, 0, [0]), 17))


def test_rule_5_at_most_ten_draws():
    """Two documents: the tenth draw still hits the own one with probability 2 ** -10."""
    documents = make_documents(2, sizes=(30_000,), lengths=(2,))
    pairs = instances(sentence_pairs(make_pool(documents), 7, 0, 3, 0.0, 1.0))
    own = np.mean([a[0] // 60_000 == b[0] // 60_000 for a, b, _ in pairs])
    assert 0.0002 < own < 0.0025  # 1 / 1024


def test_coins_are_exact_beyond_a_word():
    keys = fold_in(1, tf.range(5))
    throws = tf.constant([0, 1, 64, 65, 200_000])
    heads = _coin_flips(keys, throws).numpy()
    words = [
        [word % 2**64 for word in fold_in(key, tf.range((n + 63) // 64)).numpy().tolist()]
        for key, n in zip(keys, throws.numpy().tolist(), strict=True)
    ]
    expected = [
        sum((w & ((1 << min(64, n - 64 * i)) - 1)).bit_count() for i, w in enumerate(row))
        for row, n in zip(words, throws.numpy().tolist(), strict=True)
    ]
    assert heads.tolist() == expected
    assert abs(heads[4] - 100_000) < 1200
    many = _coin_flips(fold_in(2, tf.range(20_000)), tf.fill([20_000], 10)).numpy()
    assert abs(many.mean() - 5) < 0.05 and abs(many.var() - 2.5) < 0.1


def test_singles():
    """Without next sentences: whole chunks, truncated, that cover every document."""
    documents = make_documents(50, seed=11, lengths=(1, 4, 9))
    pool = make_pool(documents)
    table = sentence_pairs(pool, 12, 0, 30, next_sentence=False)
    assert not table.is_random.numpy().any() and (table.b_length.numpy() == 0).all()
    lengths = table.a_length.numpy()
    assert lengths.max() == 30 and (lengths[:-1] >= 1).all()
    used = [token for a, _, _ in instances(table) for token in a]
    assert len(used) == len(set(used)) > 0.8 * sum(len(s) for d in documents for s in d)
    assert int(count_pairs(pool, 12, 0, 30, next_sentence=False)) == len(lengths)


def test_long_documents_and_empty_pools():
    novels = make_documents(2, sizes=(10_000,), lengths=(5, 30))
    table = sentence_pairs(make_pool(novels), 13, 0, 125)
    assert as_lists(instances(table)) == as_lists(make_pairs(novels, KeyedDraws(13, 0, [0, 1]), 125))
    empty = TokenPool(*(tf.zeros([0], tf.int32),) * 2, tf.zeros([1], tf.int32), tf.zeros([0], tf.int64))
    for next_sentence in (True, False):
        table = sentence_pairs(empty, 13, 0, 125, next_sentence=next_sentence)
        assert isinstance(table, PairTable) and all(column.shape == (0,) for column in table)


def test_keyed_by_document_not_by_its_place():
    """A document's walk is the same whatever stands around it; only its random next sentences come from there."""
    documents = make_documents(9, seed=14)
    alone = sentence_pairs(make_pool(documents[4:5], [44]), 15, 2, 29)
    among = sentence_pairs(make_pool(documents, range(40, 49)), 15, 2, 29)
    here = np.isin(among.keys.numpy(), alone.keys.numpy())
    assert here.sum() == len(alone.keys)
    shift = sum(len(s) for d in documents[:4] for s in d)
    np.testing.assert_array_equal(among.is_random.numpy()[here], alone.is_random)
    same = ~alone.is_random.numpy()
    np.testing.assert_array_equal(among.a_start.numpy()[here][same] - shift, alone.a_start.numpy()[same])
    np.testing.assert_array_equal(among.b_length.numpy()[here][same], alone.b_length.numpy()[same])


def test_seed_and_epoch_change_everything_and_the_same_ones_nothing():
    pool = make_pool(make_documents(30))
    tables = [sentence_pairs(pool, seed, epoch, 29) for seed, epoch in ((1, 0), (1, 1), (2, 0))]
    compiled = tf.function(lambda: sentence_pairs(pool, 1, tf.constant(0, tf.int64), 29))()
    assert_arrays_equal(tables[0], compiled)
    keys = [set(table.keys.numpy().tolist()) for table in tables]
    assert not (keys[0] & keys[1] or keys[0] & keys[2] or keys[1] & keys[2])
    assert all(len(key) == len(table.keys) for key, table in zip(keys, tables, strict=True))


def test_count_pairs_needs_no_tokens():
    pool = make_pool(make_documents(40, seed=16))
    for epoch in range(3):
        count = count_pairs(pool._replace(token_ids=tf.zeros([0], tf.int32)), 17, epoch, 29)
        assert int(count) == len(sentence_pairs(pool, 17, epoch, 29).keys)


def test_no_room():
    with pytest.raises(ValueError, match="Received: 1"):
        sentence_pairs(make_pool(make_documents(2)), 0, 0, 1)
