"""Pools → rows: which pairs are drawn from a pool, in which order, and which of them share a row.

Shapes: p pairs, r rows.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import tensorflow as tf

from kbert.corpus.pool import TokenPool
from kbert.pretraining.pairs import PairTable, count_pairs, max_pair_tokens, sentence_pairs
from kbert.pretraining.rows import add_further_parts, arrange_in_rows, count_rows, part_lengths, row_of_pairs
from kbert.stateless_random import fold_in, permutation

if TYPE_CHECKING:
    from kbert.pretraining.masking import NextTokens, TokenMasking

_ORDER, _ROWS, _FURTHER = 3, 4, 5  # keep these draws independent of other uses of the same seed


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowSampler:
    """Samples the rows of a pool: a function of (seed, epoch, pool), which needs the pool's lengths, not its tokens.

    Args:
        masking: `TokenMasking` or `NextTokens`, which limits the masks of a packed row.
        seed: int.
        sequence_length: S.
        next_sentence, short_sequence_rate, random_next_rate: see `sentence_pairs`.
        num_parts: K, the maximum number of pairs in a row. None: plain rows of one pair.
        fill_rows: whether packed rows get further short pairs (`kbert.pretraining.rows`).
        dupe_factor: the number of epochs after which the same pairs are repeated. None: never.
    """

    masking: "TokenMasking | NextTokens"
    seed: int
    sequence_length: int
    next_sentence: bool = True
    short_sequence_rate: float = 0.1
    random_next_rate: float = 0.5
    num_parts: int | None = None
    fill_rows: bool = False
    dupe_factor: int | None = None

    @property
    def _pairing(self):
        max_tokens = max_pair_tokens(self.sequence_length, self.next_sentence)
        return max_tokens, self.short_sequence_rate, self.random_next_rate, self.next_sentence

    def _repeated(self, epoch):
        return epoch if self.dupe_factor is None else epoch % self.dupe_factor

    @functools.cached_property
    def _pairs(self) -> Callable:
        @functools.partial(tf.function, autograph=False, reduce_retracing=True)  # counting calls it eagerly
        def pairs(pool, epoch):
            return sentence_pairs(pool, self.seed, self._repeated(epoch), *self._pairing)

        return pairs

    def _rows(self, table: PairTable) -> tf.Tensor:
        return row_of_pairs(self.masking, table, self.sequence_length, self.num_parts, self.next_sentence)

    def count(self, pool: TokenPool, epoch: int | tf.Tensor) -> tf.Tensor:
        """The number of rows, int32 scalar."""
        if self.num_parts is None:
            return count_pairs(pool, self.seed, self._repeated(epoch), *self._pairing)
        return count_rows(self._rows(self._pairs(pool, epoch)))

    def sample(self, pool: TokenPool, epoch: int | tf.Tensor) -> tuple[PairTable, tf.Tensor]:
        """The pairs in the order of their rows, and int32 [r + 1]: row i has the pairs splits[i] to splits[i + 1] - 1.

        The rows of a pool are shuffled.
        """
        table = self._pairs(pool, epoch)
        first = tf.reduce_sum(pool.document_ids[:1])  # 0 for an empty pool
        order = permutation(fold_in(self.seed, _ORDER, epoch, first), tf.size(table.keys))
        table = PairTable(*(tf.gather(column, order) for column in table))
        if self.num_parts is None:
            return table, tf.range(tf.size(table.keys) + 1)
        rows = self._rows(table)
        if self.fill_rows:
            table, rows = add_further_parts(
                self.masking,
                pool,
                table,
                rows,
                fold_in(self.seed, _FURTHER, self._repeated(epoch), first),
                self.sequence_length,
                self.num_parts,
                self.next_sentence,
                self.random_next_rate,
            )
        return arrange_in_rows(table, rows, fold_in(self.seed, _ROWS, epoch, first))

    def real_fraction(self, pool: TokenPool) -> float:
        """The fraction of the first epoch's tokens that are not padding."""
        table, splits = self.sample(pool, 0)
        tokens = int(tf.reduce_sum(part_lengths(table, self.next_sentence)))
        return tokens / max(1, (len(splits) - 1) * self.sequence_length)
