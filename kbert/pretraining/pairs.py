"""Sentence pairs for next-sentence prediction: the original's algorithm for all documents of a pool at once.

The original goes through a document chunk by chunk, and makes a pair from each chunk of sentences. The end of a chunk
depends on random draws, so the loop looks sequential. Here each draw is keyed by (seed, epoch, document, first sentence
of the chunk): the chunk that would start at sentence i, and where the next one would start, are functions of i,
computed for every sentence of the pool. The chunks in use are those reachable from the first sentences of the
documents; pointer doubling finds them in log2(longest document) steps. No two chunks of a document start at the same
sentence, so all draws are independent, as the original's are.

Shapes: n sentences, d documents of a pool, p pairs.
"""

from typing import TYPE_CHECKING, NamedTuple

import tensorflow as tf

from kbert.stateless_random import fold_in, random_integers, uniform
from kbert.text.packing import truncated_lengths

if TYPE_CHECKING:
    from kbert.corpus.pool import TokenPool


_PAIRS = 1  # keep these draws independent of other uses of the same seed
_TARGET, _SIZE, _SPLIT, _NEXT, _DOCUMENT, _START, _FRONT_A, _FRONT_B, _EXAMPLE, _FIRST = range(10)
_DRAWS = 10  # of a document other than the current one


class PairTable(NamedTuple):
    """Pairs as ranges of the pool's tokens, already truncated; all [p], in the order of the documents.

    a_start, a_length, b_start, b_length: int32; b_length is 0 for single segments.
    is_random: bool, the second segment comes from a random position (label 1); or int32, -1 = not known.
    keys: int64, the key of all further draws for the example, such as its masks.
    """

    a_start: tf.Tensor
    a_length: tf.Tensor
    b_start: tf.Tensor
    b_length: tf.Tensor
    is_random: tf.Tensor
    keys: tf.Tensor


class PairSentences(NamedTuple):
    """The sentences of pairs before truncation; all int32 [p], as in the `PairTable` of the same draws.

    target: tokens that the pair was to have.
    a_first, a_end: the sentences of A, from a_first to a_end - 1, counted over the pool.
    b_first, b_end: those of B.
    """

    target: tf.Tensor
    a_first: tf.Tensor
    a_end: tf.Tensor
    b_first: tf.Tensor
    b_end: tf.Tensor


def special_tokens(next_sentence: bool = True) -> int:
    """How many of a part's tokens are [CLS] and [SEP]."""
    return 3 if next_sentence else 2


def max_pair_tokens(sequence_length: int, next_sentence: bool = True) -> int:
    """The tokens of a row that are left for a pair, besides [CLS] and [SEP]."""
    special = special_tokens(next_sentence)
    if sequence_length < special + 2:
        raise ValueError(f"`sequence_length` must be at least {special + 2} here. Received: {sequence_length}")
    return sequence_length - special


def example_keys(
    seed: int | tf.Tensor, epoch: int | tf.Tensor, document_ids: tf.Tensor, sentence: int | tf.Tensor
) -> tf.Tensor:
    """The keys of the masks of examples that begin at these sentences of their documents, int64 [p]."""
    return fold_in(seed, _PAIRS, epoch, document_ids, sentence, _EXAMPLE)


def sentence_pairs(
    pool: "TokenPool",
    seed: int | tf.Tensor,
    epoch: int | tf.Tensor,
    max_tokens: int,
    short_sequence_rate: float = 0.1,
    random_next_rate: float = 0.5,
    next_sentence: bool = True,
) -> PairTable:
    """Draws the pairs of one visit to each document of the pool.

    Once per document, a target length is drawn: `max_tokens`, or with probability `short_sequence_rate` between 2 and
    `max_tokens`. Sentences are added to a chunk until it reaches the target or the document ends. Its first sentences,
    a random number of them, are A. B is the rest of the chunk, or, with probability `random_next_rate` and always if
    there is no rest, sentences from a random position in a random document up to the target length (up to 10 draws
    until it is not the current document); the rest is then used again for the next chunk. A pair longer than
    `max_tokens` loses tokens of the longer segment (B if equal), each at the front or the back by a fair coin.

    The random document is drawn from the pool, not from the whole corpus as in the original: memory stays bounded.

    Args:
        seed, epoch: ints or int64 scalars.
        max_tokens: of A and B together (sequence length - 3) or of the single segment (- 2); at least 2.
        short_sequence_rate, random_next_rate: probabilities.
        next_sentence: False: single segments, each a whole chunk.

    Source: Devlin et al. 2018, appendix A.2; google-research/bert create_pretraining_data.py,
    ``create_instances_from_document``.
    """
    if max_tokens < 2:
        raise ValueError(f"`max_tokens` must be at least 2, a token for each segment. Received: {max_tokens}")
    chunks = _chunks(pool, seed, epoch, max_tokens, short_sequence_rate, random_next_rate, next_sentence)
    if not next_sentence:
        return _singles(chunks, max_tokens)
    return _pairs(pool, chunks, max_tokens)


def count_pairs(
    pool: "TokenPool",
    seed: int | tf.Tensor,
    epoch: int | tf.Tensor,
    max_tokens: int,
    short_sequence_rate: float = 0.1,
    random_next_rate: float = 0.5,
    next_sentence: bool = True,
) -> tf.Tensor:
    """How many pairs `sentence_pairs` makes, int32 scalar; does not read the tokens."""
    chunks = _chunks(pool, seed, epoch, max_tokens, short_sequence_rate, random_next_rate, next_sentence)
    return tf.size(chunks.first)


def pair_sentences(
    pool: "TokenPool",
    seed: int | tf.Tensor,
    epoch: int | tf.Tensor,
    max_tokens: int,
    short_sequence_rate: float = 0.1,
    random_next_rate: float = 0.5,
) -> PairSentences:
    """The sentences of the pairs of `sentence_pairs`, for people to look at."""
    chunks = _chunks(pool, seed, epoch, max_tokens, short_sequence_rate, random_next_rate, True)
    return PairSentences(chunks.target, chunks.first, chunks.middle, *_second_segments(pool, chunks))


def further_pairs(
    pool: "TokenPool",
    keys: tf.Tensor,
    max_tokens: int | tf.Tensor,
    random_next_rate: float = 0.5,
    next_sentence: bool = True,
) -> PairTable:
    """A pair for each key, drawn as those of `sentence_pairs` but from a random sentence of the pool on."""
    totals = tf.pad(tf.cumsum(pool.sentence_lengths), [[1, 0]])  # [n + 1]
    first = tf.cast(random_integers(fold_in(keys, _FIRST), 1, 0, tf.size(totals) - 1)[:, 0], tf.int32)
    document = tf.searchsorted(pool.document_splits, first, side="right") - 1
    chunks = _chunks_from(pool, totals, first, document, max_tokens, keys, random_next_rate, next_sentence)
    return _pairs(pool, chunks, max_tokens) if next_sentence else _singles(chunks, max_tokens)


class _Chunks(NamedTuple):
    """Chunks of sentences `first` to `end` - 1, of which A is `first` to `middle` - 1. All [p] but `totals`."""

    totals: tf.Tensor  # int32 [n + 1], tokens before each sentence
    first: tf.Tensor
    middle: tf.Tensor
    end: tf.Tensor
    document: tf.Tensor
    target: tf.Tensor
    is_random: tf.Tensor
    keys: tf.Tensor


def _chunks(pool, seed, epoch, max_tokens, short_sequence_rate, random_next_rate, next_sentence):
    totals = tf.pad(tf.cumsum(pool.sentence_lengths), [[1, 0]])  # [n + 1]
    sizes = pool.document_splits[1:] - pool.document_splits[:-1]  # [d]
    document = tf.repeat(tf.range(tf.size(sizes)), sizes)  # [n]
    start, stop = (tf.gather(splits, document) for splits in (pool.document_splits[:-1], pool.document_splits[1:]))
    sentence = tf.range(tf.size(document))

    document_keys = fold_in(seed, _PAIRS, epoch, pool.document_ids)  # [d]
    is_short = uniform(fold_in(document_keys, _TARGET), 1)[:, 0] < short_sequence_rate
    short = random_integers(fold_in(document_keys, _SIZE), 1, 2, max_tokens + 1)[:, 0]
    target = tf.gather(tf.where(is_short, tf.cast(short, tf.int32), max_tokens), document)  # [n]

    keys = fold_in(tf.gather(document_keys, document), sentence - start)  # [n]
    chunks = _chunks_from(pool, totals, sentence, document, target, keys, random_next_rate, next_sentence)
    following = tf.where(chunks.is_random, chunks.middle, chunks.end)  # the unused sentences begin the next chunk
    used = _reachable(pool.document_splits, tf.where(following < stop, following, tf.size(sentence)))
    return _Chunks(totals, *(tf.gather(part, used) for part in chunks[1:]))


def _chunks_from(pool, totals, first, document, target, keys, random_next_rate, next_sentence):
    """The chunks that start at the sentences `first` of the documents `document`; all [p]."""
    stop = tf.gather(pool.document_splits, document + 1)
    end = tf.minimum(tf.searchsorted(totals, tf.gather(totals, first) + target), stop)
    size = end - first
    if next_sentence:
        split = random_integers(fold_in(keys, _SPLIT), 1, 1, tf.maximum(size, 2)[:, tf.newaxis])[:, 0]
        middle = first + tf.cast(split, tf.int32)
        is_random = (size == 1) | (uniform(fold_in(keys, _NEXT), 1)[:, 0] < random_next_rate)
    else:
        middle, is_random = end, tf.zeros_like(first, tf.bool)
    return _Chunks(totals, first, middle, end, document, target, is_random, keys)


def _reachable(document_splits, following):
    """Sentences reachable from a document's first one along `following` (n = the end), int32 [p], ascending."""
    n = tf.size(following)
    reachable = tf.scatter_nd(document_splits[:-1, tf.newaxis], tf.ones_like(document_splits[:-1]), [n + 1])
    longest = tf.reduce_max(tf.concat([document_splits[1:] - document_splits[:-1], [1]], 0))

    def step(distance, reachable, jump):
        # So far: sentences less than `distance` steps after a first one. `jump` goes `distance` steps.
        further = tf.math.unsorted_segment_max(reachable, jump, n + 1)
        return 2 * distance, tf.maximum(reachable, further), tf.gather(jump, jump)

    _, reachable, _ = tf.while_loop(
        lambda distance, reachable, jump: distance < longest, step, [1, reachable, tf.concat([following, [n]], 0)]
    )
    return tf.cast(tf.where(reachable[:-1] > 0)[:, 0], tf.int32)


def _pairs(pool, chunks, max_tokens):
    a_start = tf.gather(chunks.totals, chunks.first)
    a_length = tf.gather(chunks.totals, chunks.middle) - a_start
    b_first, b_end = _second_segments(pool, chunks)
    b_start = tf.gather(chunks.totals, b_first)
    b_length = tf.gather(chunks.totals, b_end) - b_start
    a_kept, b_kept = truncated_lengths(a_length, b_length, max_tokens)
    return PairTable(
        a_start + _coin_flips(fold_in(chunks.keys, _FRONT_A), a_length - a_kept),
        a_kept,
        b_start + _coin_flips(fold_in(chunks.keys, _FRONT_B), b_length - b_kept),
        b_kept,
        chunks.is_random,
        fold_in(chunks.keys, _EXAMPLE),
    )


def _second_segments(pool, chunks):
    """The sentences of B: first and end, int32 [p] each."""
    a_length = tf.gather(chunks.totals, chunks.middle) - tf.gather(chunks.totals, chunks.first)
    random_first, random_end = _random_chunk(pool, chunks, chunks.target - a_length)
    b_first = tf.where(chunks.is_random, random_first, chunks.middle)
    return b_first, tf.where(chunks.is_random, random_end, chunks.end)


def _singles(chunks, max_tokens):
    start = tf.gather(chunks.totals, chunks.first)
    length = tf.gather(chunks.totals, chunks.end) - start
    kept = tf.minimum(length, max_tokens)
    start += _coin_flips(fold_in(chunks.keys, _FRONT_A), length - kept)
    zeros = tf.zeros_like(start)
    return PairTable(start, kept, zeros, zeros, chunks.is_random, fold_in(chunks.keys, _EXAMPLE))


def _random_chunk(pool, chunks, wanted):
    """Sentences first to end - 1 at a random position: `wanted` tokens or more, if the document has them. int32 [p]."""
    draws = random_integers(fold_in(chunks.keys, _DOCUMENT), _DRAWS, 0, tf.size(pool.document_ids))  # [p, 10]
    draws = tf.cast(draws, tf.int32)
    other = tf.argmax(tf.cast(draws != chunks.document[:, tf.newaxis], tf.int32), axis=1)  # 0 if every draw is this one
    document = tf.gather(draws, other, batch_dims=1)
    start = tf.gather(pool.document_splits, document)
    stop = tf.gather(pool.document_splits, document + 1)
    offset = random_integers(fold_in(chunks.keys, _START), 1, 0, (stop - start)[:, tf.newaxis])[:, 0]
    first = start + tf.cast(offset, tf.int32)
    limit = tf.gather(chunks.totals, first) + tf.maximum(wanted, 1)  # one sentence is always taken
    return first, tf.minimum(tf.searchsorted(chunks.totals, limit), stop)


def _coin_flips(keys, throws):
    """How many of `throws` fair coins fall on heads: exact, 64 coins a random word. int32 [p]."""
    words = (throws + 63) // 64
    row = tf.repeat(tf.range(tf.size(throws)), words)  # one entry per word
    word = tf.range(tf.size(row)) - tf.gather(tf.cumsum(words, exclusive=True), row)
    coins = tf.cast(tf.minimum(tf.gather(throws, row) - 64 * word, 64), tf.int64)
    bits = fold_in(tf.gather(keys, row), word)
    used = tf.where(coins == 64, tf.constant(-1, tf.int64), tf.bitwise.left_shift(tf.ones_like(coins), coins) - 1)
    ones = tf.raw_ops.PopulationCount(x=tf.bitwise.bitwise_and(bits, used))
    return tf.math.unsorted_segment_sum(tf.cast(ones, tf.int32), row, tf.size(throws))
