"""How full rows of a corpus are, packed and not, without making them.

Shapes: S sequence, P predictions, K parts of a packed row.
"""

from typing import TYPE_CHECKING

import tensorflow as tf

from kbert.config import default_num_parts
from kbert.corpus.pool import TokenPool, text_pools
from kbert.corpus.records import Records
from kbert.errors import reading_errors
from kbert.pretraining.masking import NextTokens, TokenMasking
from kbert.pretraining.pairs import max_pair_tokens, sentence_pairs
from kbert.pretraining.rows import add_further_parts, count_rows, part_lengths, row_of_pairs
from kbert.pretraining.sources import Source, open_source, resolve_held_out, text_documents

if TYPE_CHECKING:
    from kbert.text.tokenizer import BertTokenizer


_SHORT_SEQUENCE_RATE = 0.1  # of `pretraining_dataset`


def first_pool(source: Source, tokenizer: "BertTokenizer", seed: int = 0, held_out: float | None = None) -> TokenPool:
    """The `TokenPool` of the first shard of records, without its tokens, or of the beginning of a corpus of text."""
    held_out = resolve_held_out("real_fractions", source, held_out)
    opened = open_source(source)
    if isinstance(opened, Records):
        return opened.index(0)
    documents = text_documents(opened, tokenizer, seed, 1, False, held_out)
    with reading_errors():
        [*_, pool] = next(iter(text_pools(documents, tokenizer).take(1)))
    return pool


def real_fractions(
    source: Source,
    tokenizer: "BertTokenizer",
    *,
    sequence_length: int = 128,
    max_predictions: int = 20,
    num_parts: int | None = None,
    seed: int = 0,
    held_out: float | None = None,
    next_sentence: bool = True,
    random_next_rate: float = 0.5,
    mask_rate: float = 0.15,
    left_to_right: bool = False,
    filled: bool = True,
) -> dict[str, float]:
    """The fraction of tokens that are not padding, from the lengths of the pairs of the first pool.

    `plain`, of rows of one pair; `packed`; with `filled` also `filled`, of packed rows with further short pairs.
    """
    max_tokens = max_pair_tokens(sequence_length, next_sentence)
    pool = first_pool(source, tokenizer, seed, held_out)
    draw_pairs = tf.function(sentence_pairs, autograph=False)
    table = draw_pairs(pool, seed, 0, max_tokens, _SHORT_SEQUENCE_RATE, random_next_rate, next_sentence)
    if left_to_right:
        masking = NextTokens(tokenizer, max_predictions)
    else:
        masking = TokenMasking(tokenizer, max_predictions, mask_rate)
    num_parts = num_parts or default_num_parts(sequence_length)
    rows = row_of_pairs(masking, table, sequence_length, num_parts, next_sentence)

    def fraction(table, number):
        tokens = tf.reduce_sum(part_lengths(table, next_sentence))
        return float(tokens) / max(1, int(number) * sequence_length)

    number = count_rows(rows)
    fractions = {"plain": fraction(table, tf.size(table.keys)), "packed": fraction(table, number)}
    if filled:
        key = tf.constant(seed, tf.int64)
        table, _ = add_further_parts(
            masking, pool, table, rows, key, sequence_length, num_parts, next_sentence, random_next_rate
        )
        fractions["filled"] = fraction(table, number)
    return fractions
