"""Sentence pairs for next-sentence prediction: the original's algorithm for all documents of a pool at once.

The original walks through a document: a chunk of sentences, a pair, the next chunk. Where a chunk ends depends on
draws, so the walk looks sequential. Here each draw is keyed by (seed, epoch, document, first sentence of the chunk);
what a chunk that starts at sentence i would be, and where the next one would start, is then a function of i. It is
computed for every sentence of the pool; the chunks that the walk really visits are those reached from the documents'
first sentences, which pointer doubling finds in log2(longest document) steps. A walk visits no sentence twice as a
start, so all draws are independent, as the original's are.

Shapes: n sentences, D documents of a pool, N pairs.
"""

from typing import NamedTuple

import tensorflow as tf

from kbert.stateless_random import fold_in, random_integers, uniform
from kbert.text.packing import truncated_lengths

_PAIRS = 1  # apart from other uses of the same seed
_TARGET, _SIZE, _SPLIT, _NEXT, _DOCUMENT, _START, _FRONT_A, _FRONT_B, _EXAMPLE = range(9)
_DRAWS = 10  # of a document other than the current one


class PairTable(NamedTuple):
    """Pairs as ranges of the pool's tokens, already truncated; all [N], in the order of the documents.

    a_start, a_length, b_start, b_length: int32; b_length is 0 for single segments.
    is_random: bool, the second segment comes from a random place (label 1).
    keys: int64, the key of all further draws for the example, such as its masks.
    """

    a_start: tf.Tensor
    a_length: tf.Tensor
    b_start: tf.Tensor
    b_length: tf.Tensor
    is_random: tf.Tensor
    keys: tf.Tensor


def sentence_pairs(
    pool, seed, epoch, max_tokens, short_sequence_rate=0.1, random_next_rate=0.5, next_sentence=True
) -> PairTable:
    """Draws the pairs that one visit to each document of the pool gives.

    Once a document, a target length is drawn: `max_tokens`, or with probability `short_sequence_rate` between 2 and
    `max_tokens`. Sentences are added to a chunk until it reaches the target or the document ends. Its first sentences,
    a random number of them, are A. B is the rest, or, with probability `random_next_rate` and always if there is no
    rest, sentences from a random place of a random document (up to 10 draws for another one than this) up to the
    target; the rest is then put back. What is longer than `max_tokens` loses tokens from the longer segment (B if
    equal), each from the front or the back by a fair coin.

    The random document is drawn from the pool, not from the whole corpus as in the original: memory stays bounded.

    Args:
        pool: `TokenPool`.
        seed, epoch: ints or int64 scalars.
        max_tokens: int, room for A and B together (sequence length - 3) or for the single segment (- 2); at least 2.
        short_sequence_rate, random_next_rate: probabilities.
        next_sentence: False: single segments, each a whole chunk.

    Returns:
        `PairTable`.

    Source: Devlin et al. 2018, appendix A.2; google-research/bert create_pretraining_data.py,
    ``create_instances_from_document``.

    Example::

        table = sentence_pairs(pool, seed=1, epoch=0, max_tokens=125)
        first = pool.token_ids[table.a_start[0] : table.a_start[0] + table.a_length[0]]
    """
    if max_tokens < 2:
        raise ValueError(f"`max_tokens` must be at least 2, a token for each segment. Received: {max_tokens}")
    walk = _walk(pool, seed, epoch, max_tokens, short_sequence_rate, random_next_rate, next_sentence)
    if not next_sentence:
        return _singles(walk, max_tokens)
    return _pairs(pool, walk, max_tokens)


def count_pairs(pool, seed, epoch, max_tokens, short_sequence_rate=0.1, random_next_rate=0.5, next_sentence=True):
    """How many pairs `sentence_pairs` makes, int32 scalar; looks at no token."""
    walk = _walk(pool, seed, epoch, max_tokens, short_sequence_rate, random_next_rate, next_sentence)
    return tf.size(walk.first)


class _Walk(NamedTuple):
    """The chunks that are visited, sentences first to end - 1, A being first to middle - 1. All [N] but `totals`."""

    totals: tf.Tensor  # int32 [n + 1], tokens before each sentence
    first: tf.Tensor
    middle: tf.Tensor
    end: tf.Tensor
    document: tf.Tensor
    target: tf.Tensor
    is_random: tf.Tensor
    keys: tf.Tensor


def _walk(pool, seed, epoch, max_tokens, short_sequence_rate, random_next_rate, next_sentence):
    totals = tf.pad(tf.cumsum(pool.sentence_lengths), [[1, 0]])  # [n + 1]
    sizes = pool.document_splits[1:] - pool.document_splits[:-1]  # [D]
    document = tf.repeat(tf.range(tf.size(sizes)), sizes)  # [n]
    start, stop = (tf.gather(splits, document) for splits in (pool.document_splits[:-1], pool.document_splits[1:]))
    sentence = tf.range(tf.size(document))

    document_keys = fold_in(seed, _PAIRS, epoch, pool.document_ids)  # [D]
    is_short = uniform(fold_in(document_keys, _TARGET), 1)[:, 0] < short_sequence_rate
    short = random_integers(fold_in(document_keys, _SIZE), 1, 2, max_tokens + 1)[:, 0]
    target = tf.gather(tf.where(is_short, tf.cast(short, tf.int32), max_tokens), document)  # [n]

    end = tf.minimum(tf.searchsorted(totals, totals[:-1] + target), stop)
    size = end - sentence
    keys = fold_in(tf.gather(document_keys, document), sentence - start)  # [n]
    if next_sentence:
        split = random_integers(fold_in(keys, _SPLIT), 1, 1, tf.maximum(size, 2)[:, tf.newaxis])[:, 0]
        middle = sentence + tf.cast(split, tf.int32)
        is_random = (size == 1) | (uniform(fold_in(keys, _NEXT), 1)[:, 0] < random_next_rate)
    else:
        middle, is_random = end, tf.zeros_like(sentence, tf.bool)
    following = tf.where(is_random, middle, end)  # the unused sentences are put back
    visited = _reached(pool.document_splits, tf.where(following < stop, following, tf.size(sentence)))
    parts = (sentence, middle, end, document, target, is_random, keys)
    return _Walk(totals, *(tf.gather(part, visited) for part in parts))


def _reached(document_splits, following):
    """Sentences on the way from a document's first one along `following` (n = the end), int32 [N], ascending."""
    n = tf.size(following)
    reached = tf.scatter_nd(document_splits[:-1, tf.newaxis], tf.ones_like(document_splits[:-1]), [n + 1])
    longest = tf.reduce_max(tf.concat([document_splits[1:] - document_splits[:-1], [1]], 0))

    def step(distance, reached, jump):
        # Known so far: what lies less than `distance` steps behind a start. `jump` goes `distance` steps.
        further = tf.math.unsorted_segment_max(reached, jump, n + 1)
        return 2 * distance, tf.maximum(reached, further), tf.gather(jump, jump)

    _, reached, _ = tf.while_loop(
        lambda distance, reached, jump: distance < longest, step, [1, reached, tf.concat([following, [n]], 0)]
    )
    return tf.cast(tf.where(reached[:-1] > 0)[:, 0], tf.int32)


def _pairs(pool, walk, max_tokens):
    a_start = tf.gather(walk.totals, walk.first)
    a_length = tf.gather(walk.totals, walk.middle) - a_start
    random_first, random_end = _random_place(pool, walk, walk.target - a_length)
    b_first = tf.where(walk.is_random, random_first, walk.middle)
    b_start = tf.gather(walk.totals, b_first)
    b_length = tf.gather(walk.totals, tf.where(walk.is_random, random_end, walk.end)) - b_start
    a_left, b_left = truncated_lengths(a_length, b_length, max_tokens)
    return PairTable(
        a_start + _coin_flips(fold_in(walk.keys, _FRONT_A), a_length - a_left),
        a_left,
        b_start + _coin_flips(fold_in(walk.keys, _FRONT_B), b_length - b_left),
        b_left,
        walk.is_random,
        fold_in(walk.keys, _EXAMPLE),
    )


def _singles(walk, max_tokens):
    start = tf.gather(walk.totals, walk.first)
    length = tf.gather(walk.totals, walk.end) - start
    left = tf.minimum(length, max_tokens)
    start += _coin_flips(fold_in(walk.keys, _FRONT_A), length - left)
    nothing = tf.zeros_like(start)
    return PairTable(start, left, nothing, nothing, walk.is_random, fold_in(walk.keys, _EXAMPLE))


def _random_place(pool, walk, wanted):
    """Sentences first to end - 1 of a random place: `wanted` tokens or more, if the document has them. int32 [N]."""
    draws = random_integers(fold_in(walk.keys, _DOCUMENT), _DRAWS, 0, tf.size(pool.document_ids))  # [N, 10]
    draws = tf.cast(draws, tf.int32)
    other = tf.argmax(tf.cast(draws != walk.document[:, tf.newaxis], tf.int32), axis=1)  # 0 if every draw is this one
    document = tf.gather(draws, other, batch_dims=1)
    start, stop = tf.gather(pool.document_splits, document), tf.gather(pool.document_splits, document + 1)
    offset = random_integers(fold_in(walk.keys, _START), 1, 0, (stop - start)[:, tf.newaxis])[:, 0]
    first = start + tf.cast(offset, tf.int32)
    reach = tf.gather(walk.totals, first) + tf.maximum(wanted, 1)  # one sentence is always taken
    return first, tf.minimum(tf.searchsorted(walk.totals, reach), stop)


def _coin_flips(keys, throws):
    """How many of `throws` fair coins fall on heads: exact, 64 coins a random word. int32 [N]."""
    words = (throws + 63) // 64
    row = tf.repeat(tf.range(tf.size(throws)), words)  # one entry a word
    word = tf.range(tf.size(row)) - tf.gather(tf.cumsum(words, exclusive=True), row)
    coins = tf.cast(tf.minimum(tf.gather(throws, row) - 64 * word, 64), tf.int64)
    bits = fold_in(tf.gather(keys, row), word)
    used = tf.where(coins == 64, tf.constant(-1, tf.int64), tf.bitwise.left_shift(tf.ones_like(coins), coins) - 1)
    ones = tf.raw_ops.PopulationCount(x=tf.bitwise.bitwise_and(bits, used))
    return tf.math.unsorted_segment_sum(tf.cast(ones, tf.int32), row, tf.size(throws))
