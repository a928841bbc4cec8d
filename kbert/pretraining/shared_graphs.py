"""The dear parts of a pre-training dataset as graphs that all datasets of a process share.

Tracing them takes most of the time until a first batch, and a run makes several datasets: of training, of held-out
rows, of its statistics, in each phase, and again where it resumes.

Shapes: n sentences, d documents of a pool, p pairs, B rows.
"""

import dataclasses
import functools
from collections.abc import Callable

import tensorflow as tf

from kbert.corpus.pool import TokenPool
from kbert.corpus.records import vocabulary_hash
from kbert.pretraining.masking import OPTIONS, NextTokens, TokenMasking
from kbert.pretraining.pairs import PairTable, sentence_pairs
from kbert.pretraining.rows import packed_rows, plain_rows
from kbert.stateless_random import fold_in

_KEPT = 16  # graphs of each kind


def shared_pairs(
    max_tokens: int, short_sequence_rate: float, random_next_rate: float, next_sentence: bool
) -> Callable[..., PairTable]:
    """`sentence_pairs` with these arguments: a function (`TokenPool`, seed, epoch int64) → `PairTable`."""
    graph = _pairs_graph(max_tokens, short_sequence_rate, random_next_rate, next_sentence)

    def draw(pool, seed, epoch):
        return PairTable(*graph(*pool[1:], fold_in(seed), epoch))  # int64, whatever integer the seed is

    return draw


def shared_rows(
    masking: TokenMasking | NextTokens,
    element_spec: tuple,
    *,
    sequence_length: int,
    next_sentence: bool,
    num_parts: int | None,
) -> Callable[..., tuple]:
    """`packed_rows`, or without `num_parts` `plain_rows`, with these arguments, of elements of this specification."""
    names = tuple(sorted(element_spec[0]))
    flat = tuple(tf.nest.flatten(element_spec))
    graph = _rows_graph(_Masking(_identity(masking), masking), names, flat, sequence_length, next_sentence, num_parts)

    def lay_out(*element):
        return graph(*tf.nest.flatten(element))

    return lay_out


@functools.lru_cache(_KEPT)
def _pairs_graph(*arguments):
    @tf.function(autograph=False)
    def draw(sentence_lengths, document_splits, document_ids, seed, epoch):
        no_tokens = tf.zeros([0], tf.int32)  # which do not count
        pool = TokenPool(no_tokens, sentence_lengths, document_splits, document_ids)
        return sentence_pairs(pool, seed, epoch, *arguments)

    shapes = [([None], tf.int32), ([None], tf.int32), ([None], tf.int64), ([], tf.int64), ([], tf.int64)]
    return draw.get_concrete_function(*(tf.TensorSpec(*shape) for shape in shapes))


@functools.lru_cache(_KEPT)
def _rows_graph(masking, names, flat_spec, sequence_length, next_sentence, num_parts):
    options = {"sequence_length": sequence_length, "next_sentence": next_sentence}

    @tf.function(autograph=False)
    def lay_out(*flat):
        values = dict(zip(names, flat[: len(names)], strict=True))
        table, splits = PairTable(*flat[len(names) : -1]), flat[-1]
        if num_parts is not None:
            return packed_rows(masking.layer, values, table, splits, num_parts=num_parts, **options)
        return plain_rows(masking.layer, values, table, **options)

    return lay_out.get_concrete_function(*flat_spec)


@dataclasses.dataclass(frozen=True)
class _Masking:
    """A layer that is the same as another of the same identity."""

    identity: tuple
    layer: object = dataclasses.field(compare=False)


def _identity(masking):
    """All that a graph of `TokenMasking` or `NextTokens` has of it and of its tokenizer."""
    tokenizer = masking.tokenizer
    ids = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id, tokenizer.pad_id, tokenizer.vocabulary_size)
    if isinstance(masking, NextTokens):
        return ("next tokens", masking.max_predictions, *ids)
    words = vocabulary_hash(tokenizer.vocabulary) if masking.whole_word else None
    return (*(getattr(masking, name) for name in OPTIONS), *ids, tuple(tokenizer.own_special_ids), words)
