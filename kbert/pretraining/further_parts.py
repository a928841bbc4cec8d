"""Further short pairs for the space that is left in packed rows.

Where most pairs of a corpus are longer than half a row, few fit together, and no assignment fills the rows.

Shapes: S sequence, K parts of a packed row, p pairs, r rows.
"""

import tensorflow as tf

from kbert.pretraining.packed_rows import count_rows, part_lengths
from kbert.pretraining.pairs import PairTable, further_pairs, special_tokens
from kbert.stateless_random import fold_in

LEAST_TOKENS = 24  # of a further pair, [CLS] and [SEP] included: shorter ones have hardly any context


def add_further_parts(
    masking, pool, table, rows, key, sequence_length, num_parts, next_sentence=True, random_next_rate=0.5
):
    """Adds one pair to each row that has space for it, from a random sentence of the pool on.

    The pairs that are there stay as they are, and so does the number of rows. A row is filled if a part of
    `LEAST_TOKENS` tokens with its masks still fits in. What is added is a function of the arguments alone.

    Args:
        pool: `TokenPool`; its tokens are not read.
        rows: int32 [p], the row of each pair, of `kbert.pretraining.packed_rows.row_of_pairs`.
        key: int64 scalar, decides which pairs are added.
        sequence_length, num_parts, next_sentence, random_next_rate: of the rows and their pairs.

    Returns:
        (`PairTable`, rows) with the pairs that were added at their ends.
    """
    number, lengths = count_rows(rows), part_lengths(table, next_sentence)

    def total(values):
        return tf.math.unsorted_segment_sum(values, rows, number)  # [r]

    free_masks = masking.max_predictions - total(masking.most_masks(lengths))
    # The longest part whose masks fit: more tokens never get fewer masks.
    longest = tf.searchsorted(masking.most_masks(tf.range(sequence_length + 1)), free_masks, side="right") - 1
    space = tf.minimum(sequence_length - total(lengths), longest)
    is_open = (space >= LEAST_TOKENS) & (total(tf.ones_like(rows)) < num_parts)
    chosen = tf.cast(tf.where(is_open)[:, 0], tf.int32)
    added = further_pairs(
        pool,
        fold_in(key, chosen),
        tf.gather(space, chosen) - special_tokens(next_sentence),
        random_next_rate,
        next_sentence,
    )
    table = PairTable(*(tf.concat(columns, 0) for columns in zip(table, added, strict=True)))
    return table, tf.concat([rows, chosen], 0)
