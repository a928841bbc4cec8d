"""Token pools: tens of thousands of tokenised sentences with their documents, within which sentence pairs are drawn.

Shapes: n sentences, d documents, t tokens of a pool.
"""

import collections
import concurrent.futures
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from kbert.text.tokenizer import BertTokenizer


POOL_SENTENCES = 32_768
_TEXTS = (tf.TensorSpec((None,), tf.string), tf.TensorSpec((None,), tf.int32), tf.TensorSpec((None,), tf.int64))
POOL_BYTES = 1 << 23  # a pool of text is closed at this size too: sentences may be a megabyte long
_BYTES_AT_ONCE = 1 << 30  # of all pools that are read at the same time


class TokenPool(NamedTuple):
    """Tokenised documents held in memory together.

    token_ids: integer [t], one sentence after the other.
    sentence_lengths: int32 [n], none 0.
    document_splits: int32 [d + 1]. Document d is the sentences document_splits[d] to document_splits[d + 1] - 1, at
    least one.
    document_ids: int64 [d], the number of each document in the corpus, which keys its random draws.
    """

    token_ids: tf.Tensor
    sentence_lengths: tf.Tensor
    document_splits: tf.Tensor
    document_ids: tf.Tensor


def make_pool(sentences: tf.RaggedTensor, document_lengths: tf.Tensor, document_ids: tf.Tensor) -> TokenPool:
    """A pool from tokenised sentences, ragged [n, None], and the sentences [d] and ids [d] of documents.

    Sentences without tokens and documents without sentences are dropped.
    """
    lengths = tf.cast(sentences.row_lengths(), tf.int32)  # [n]
    is_kept = lengths > 0
    before = tf.pad(tf.cumsum(tf.cast(is_kept, tf.int32)), [[1, 0]])  # [n + 1]
    splits = tf.gather(before, tf.pad(tf.cumsum(document_lengths), [[1, 0]]))  # [d + 1]
    document_is_kept = splits[1:] > splits[:-1]
    return TokenPool(
        sentences.flat_values,
        tf.boolean_mask(lengths, is_kept),
        tf.concat([splits[:1], tf.boolean_mask(splits[1:], document_is_kept)], 0),
        tf.boolean_mask(document_ids, document_is_kept),
    )


def pools_at_once(pool_bytes: int) -> int:
    """`num_parallel_calls` of a map over pools of this size: all cores, or fewer where memory bounds the pools."""
    most = _BYTES_AT_ONCE // pool_bytes
    return tf.data.AUTOTUNE if most >= (os.cpu_count() or 1) else max(2, most)


def text_pools(
    documents: Iterable[tuple[int, Sequence[str]]], tokenizer: "BertTokenizer", pool_sentences: int = POOL_SENTENCES
) -> Iterator[tuple[int, TokenPool]]:
    """Yields (next document's number, `TokenPool` of NumPy arrays) of each pool, in the order of the documents.

    `documents` are (number, sentences). A pool is closed at `pool_sentences` or 8 MB of text, and never divides a
    document. Threads tokenize a pool each, while the next ones are read.
    """
    pool = pool_function(tokenizer)

    def tokenize(*texts):
        return TokenPool(*(part.numpy() for part in pool(*texts)))

    cores = os.cpu_count() or 1
    waiting: collections.deque = collections.deque()
    with concurrent.futures.ThreadPoolExecutor(cores) as executor:
        for strings, lengths, numbers in text_chunks(documents, pool_sentences):
            waiting.append((int(numbers[-1]) + 1, executor.submit(tokenize, strings, lengths, numbers)))
            if len(waiting) > cores:
                number, tokenized = waiting.popleft()
                yield number, tokenized.result()
        for number, tokenized in waiting:
            yield number, tokenized.result()


def pool_function(tokenizer: "BertTokenizer") -> Callable:
    """A function from a pool of `text_chunks` to a `TokenPool`, traced once for many pools."""

    @tf.function(input_signature=_TEXTS, autograph=False)
    def pool(strings, document_lengths, document_ids):
        return make_pool(tokenizer.call(strings), document_lengths, document_ids)

    return pool


def pool_is_full(sentences: int, size: int, pool_sentences: int = POOL_SENTENCES) -> bool:
    """Whether a pool with so many sentences and bytes of text is closed before the next document."""
    return sentences >= pool_sentences or size >= POOL_BYTES


def text_chunks(
    documents: Iterable[tuple[int, Sequence[str]]], pool_sentences: int = POOL_SENTENCES
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yields (sentences [n], sentences of each document [d], number of each document [d]) of each pool."""
    strings: list[bytes] = []
    lengths: list[int] = []
    numbers: list[int] = []
    size = 0  # bytes

    def chunk():
        # A list of bytes objects: NumPy's own bytes type would drop the NULs at the end of a string.
        array = np.empty(len(strings), object)
        array[:] = strings
        return array, np.array(lengths, np.int32), np.array(numbers, np.int64)

    for number, sentences in documents:
        if lengths and pool_is_full(len(strings), size, pool_sentences):
            yield chunk()
            strings = []
            lengths = []
            numbers = []
            size = 0
        encoded = [sentence.encode("utf-8", "replace") for sentence in sentences]
        strings += encoded
        size += sum(map(len, encoded))
        lengths.append(len(encoded))
        numbers.append(number)
    if lengths:
        yield chunk()
