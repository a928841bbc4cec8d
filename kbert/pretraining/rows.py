"""Pairs → masked rows: one pair each, or packed with several short ones, which attend only to themselves.

Which pairs share a row is decided by best fit, longest first, over a whole pool. Where most pairs of a corpus are
longer than half a row, few fit together: further short pairs may then take the space that is left.

Shapes: B batch (rows), S sequence, P predictions, K parts of a packed row, p pairs (parts), t tokens, m masks, r rows
that are looked at together.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from kbert.corpus.pool import TokenPool
from kbert.pretraining.pairs import PairTable, further_pairs, special_tokens
from kbert.stateless_random import fold_in, permutation
from kbert.text.packing import pack_ranges

if TYPE_CHECKING:
    from kbert.pretraining.masking import NextTokens, TokenMasking


LEAST_TOKENS = 24  # of a further pair, [CLS] and [SEP] included: shorter ones have hardly any context


def plain_rows(
    masking: "TokenMasking | NextTokens",
    values: Mapping[str, tf.Tensor],
    table: PairTable,
    *,
    sequence_length: int,
    next_sentence: bool = True,
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    """Each pair in a row of its own, ``[CLS] A [SEP] B [SEP]``, or of single segments ``[CLS] A [SEP]``, masked.

    `values` are a pool's columns with one value per token: ``token_ids``, and ``entity_ids`` if there are any.
    """
    inputs, mask_ids, mask_weights = mask_pairs(masking, values, table, sequence_length, next_sentence)
    labels = {"mlm_logits": mask_ids}
    weights = {"mlm_logits": mask_weights}
    if next_sentence:
        labels["nsp_logits"] = tf.cast(table.is_random, tf.int32)
        weights["nsp_logits"] = tf.ones_like(table.is_random, tf.float32)
    return inputs, labels, weights


def mask_pairs(
    masking: "TokenMasking | NextTokens",
    values: Mapping[str, tf.Tensor],
    table: PairTable,
    sequence_length: int | tf.Tensor,
    next_sentence: bool,
) -> tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]:
    """What `TokenMasking` returns for each pair in a row of its own."""
    tokenizer = masking.tokenizer
    special = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id, "pad_id": tokenizer.pad_id}
    ranges = table[:4] if next_sentence else table[:2]
    batch = pack_ranges(values["token_ids"], *ranges, sequence_length=sequence_length, **special)
    entity_ids = None
    if "entity_ids" in values:
        entity_ids = pack_ranges(
            values["entity_ids"], *ranges, sequence_length=sequence_length, cls_id=0, sep_id=0, pad_id=0
        )["token_ids"]
    # Not `masking(…)`: `NextTokens` is not a Keras layer.
    return masking.call(batch, keys=table.keys, entity_ids=entity_ids)


def part_lengths(table: PairTable, next_sentence: bool = True) -> tf.Tensor:
    """Tokens of each pair with its [CLS] and [SEP], int32 [p]."""
    return table.a_length + table.b_length + special_tokens(next_sentence)


def row_of_pairs(
    masking: "TokenMasking | NextTokens",
    table: PairTable,
    sequence_length: int,
    num_parts: int,
    next_sentence: bool = True,
) -> tf.Tensor:
    """The row that each pair of a pool goes into, int32 [p]; needs the lengths of the pairs alone."""
    lengths = part_lengths(table, next_sentence)
    predictions = masking.max_predictions  # not `masking` in `assign`: TensorFlow keeps such functions for good

    def assign(lengths, masks):
        return assign_rows(lengths, masks, sequence_length, predictions, num_parts)

    rows = tf.numpy_function(assign, [lengths, masking.most_masks(lengths)], tf.int32, stateful=False)
    return tf.ensure_shape(rows, [None])


def count_rows(rows: tf.Tensor) -> tf.Tensor:
    """How many rows a result of `row_of_pairs` has, int32 scalar."""
    return tf.reduce_max(tf.concat([rows, [-1]], 0)) + 1


def arrange_in_rows(table: PairTable, rows: tf.Tensor, key: tf.Tensor) -> tuple[PairTable, tf.Tensor]:
    """The pairs in the order of their rows, and splits int32 [B + 1].

    Row r has the pairs splits[r] to splits[r + 1] - 1. Rows are in a random order: with best fit the full ones come
    first.
    """
    number = count_rows(rows)
    rows = tf.gather(permutation(key, number), rows)
    order = tf.argsort(rows, stable=True)
    splits = tf.pad(tf.cumsum(tf.math.bincount(rows, minlength=number)), [[1, 0]])
    return PairTable(*(tf.gather(column, order) for column in table)), splits


def packed_rows(
    masking: "TokenMasking | NextTokens",
    values: Mapping[str, tf.Tensor],
    table: PairTable,
    splits: tf.Tensor,
    *,
    sequence_length: int,
    num_parts: int,
    next_sentence: bool = True,
) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], dict[str, tf.Tensor]]:
    """Several pairs in each row, as `arrange_in_rows` orders them, each masked as it would be in a row of its own.

    Every part begins at position 0 with [CLS]. Its masks and their replacements are drawn with its own key: they are
    those of `plain_rows`. The predictions of a row are those of its parts, one part after another.

    Source: Krell et al. 2021 (arXiv 2107.02027), section 3.2.
    """
    number = tf.size(splits) - 1
    predictions = masking.max_predictions
    row = tf.repeat(tf.range(number), splits[1:] - splits[:-1])  # [p]
    first = tf.gather(splits, row)  # [p], the row's first part
    part = tf.range(tf.size(row)) - first  # [p], within the row
    lengths = part_lengths(table, next_sentence)
    before = tf.cumsum(lengths, exclusive=True)
    offset = before - tf.gather(before, first)  # [p], where the part begins in its row
    masked_ids, begin, masks = _masked_by_length(masking, values, table, lengths, sequence_length, next_sentence)

    owner = tf.repeat(tf.range(tf.size(row)), lengths)  # [t], the part of each token
    place = tf.range(tf.size(owner)) - tf.gather(before, owner)  # [t], within the part
    is_second = place > tf.gather(table.a_length, owner) + 1
    columns = [tf.gather(masked_ids, tf.gather(begin, owner) + place), tf.cast(is_second, tf.int32)]
    columns = tf.stack([*columns, place, tf.gather(part, owner) + 1], axis=1)  # [t, 4]
    to = tf.gather(row * sequence_length + offset, owner) + place
    columns = tf.scatter_nd(to[:, tf.newaxis], columns, [number * sequence_length, 4])
    token_ids, segment_ids, position_ids, part_ids = (
        tf.reshape(column, [-1, sequence_length]) for column in tf.unstack(columns, axis=1)
    )
    padding_mask = part_ids > 0
    counts = tf.math.unsorted_segment_sum(tf.ones_like(masks[:, 0]), masks[:, 0], tf.size(row))  # [p]
    before = tf.cumsum(counts, exclusive=True)
    slots = row * predictions + before - tf.gather(before, first)  # [p], of the part's first mask
    slots = tf.gather(slots, masks[:, 0]) + masks[:, 1]
    columns = tf.stack([tf.gather(offset, masks[:, 0]) + masks[:, 2], masks[:, 3], tf.ones_like(masks[:, 0])], 1)
    columns = tf.scatter_nd(slots[:, tf.newaxis], columns, [number * predictions, 3])
    positions, mask_ids, is_mask = (tf.reshape(c, [-1, predictions]) for c in tf.unstack(columns, axis=1))
    inputs = {
        "token_ids": tf.where(padding_mask, token_ids, masking.tokenizer.pad_id),
        "segment_ids": segment_ids,
        "padding_mask": padding_mask,
        "position_ids": position_ids,
        "part_ids": part_ids,
        "mask_positions": positions,
    }
    labels = {"mlm_logits": mask_ids}
    weights = {"mlm_logits": tf.cast(is_mask, tf.float32)}
    if next_sentence:
        columns = tf.stack([tf.cast(table.is_random, tf.int32), tf.ones_like(part)], 1)
        columns = tf.scatter_nd((row * num_parts + part)[:, tf.newaxis], columns, [number * num_parts, 2])
        columns = tf.reshape(columns, [-1, num_parts, 2])
        labels["nsp_logits"], weights["nsp_logits"] = columns[..., 0], tf.cast(columns[..., 1], tf.float32)
    return inputs, labels, weights


def _masked_by_length(masking, values, table, lengths, sequence_length, next_sentence):
    """Masks pairs among others of about their length, so that short ones are not padded to S.

    Returns:
        int32 [n]: the masked tokens of all pairs, padded; int32 [p]: where in it each pair begins; int32 [m, 4]: the
        pair of each mask, its number in the pair, its position in the pair, and the original token.
    """
    widths = tf.constant([-(-sequence_length // division) for division in (8, 4, 2, 1)])
    group = tf.searchsorted(widths, lengths)  # [p], of the least width that is enough
    order = tf.argsort(group, stable=True)
    ordered = tf.gather(widths, tf.gather(group, order))
    begin = tf.scatter_nd(order[:, tf.newaxis], tf.cumsum(ordered, exclusive=True), tf.shape(order))

    def mask_group(number, token_ids, masks):
        members = tf.cast(tf.where(group == number)[:, 0], tf.int32)  # [q]
        pairs = PairTable(*(tf.gather(column, members) for column in table))
        inputs, mask_ids, weights = mask_pairs(masking, values, pairs, widths[number], next_sentence)
        columns = (members[:, tf.newaxis], tf.range(masking.max_predictions), inputs["mask_positions"], mask_ids)
        columns = tf.stack([tf.broadcast_to(column, tf.shape(weights)) for column in columns], axis=-1)
        masks = tf.concat([masks, tf.boolean_mask(columns, weights > 0)], 0)
        return number + 1, tf.concat([token_ids, tf.reshape(inputs["token_ids"], [-1])], 0), masks

    shapes = [tf.TensorShape(shape) for shape in ([], [None], [None, 4])]
    none_yet = [0, tf.zeros([0], tf.int32), tf.zeros([0, 4], tf.int32)]
    _, masked_ids, masks = tf.while_loop(
        lambda number, *_: number < tf.size(widths), mask_group, none_yet, shapes, parallel_iterations=1
    )
    return masked_ids, begin, masks


def add_further_parts(
    masking: "TokenMasking | NextTokens",
    pool: TokenPool,
    table: PairTable,
    rows: tf.Tensor,
    key: tf.Tensor,
    sequence_length: int,
    num_parts: int,
    next_sentence: bool = True,
    random_next_rate: float = 0.5,
) -> tuple[PairTable, tf.Tensor]:
    """Adds one pair to each row that has space for it, from a random sentence of the pool on.

    The pairs that are there stay as they are, and so does the number of rows; what is added stands at the ends. A row
    is filled if a part of `LEAST_TOKENS` tokens with its masks still fits in.
    """
    number = count_rows(rows)
    lengths = part_lengths(table, next_sentence)

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


def assign_rows(
    lengths: Sequence[int] | np.ndarray,
    masks: Sequence[int] | np.ndarray,
    sequence_length: int,
    max_predictions: int,
    num_parts: int,
) -> np.ndarray:
    """The row of each part, int32 [p], as few rows as best fit finds; a function of the arguments alone.

    From the longest part to the shortest, in their order if equally long, each goes into the row with the least space
    that can still take it: its tokens, its masks, and one more part. If no row has, it begins a new one. Parts of one
    length, which need equally many masks, are placed together, so that the work grows with the number of lengths.

    Source: Krell et al. 2021, "Efficient Sequence Packing without Cross-contamination" (arXiv 2107.02027).

    Example::

        assign_rows([5, 3, 4], [1, 1, 1], 8, 2, 2)  # [0, 0, 1]
    """
    lengths, masks = np.asarray(lengths), np.asarray(masks)
    rows_of = np.zeros(len(lengths), np.int32)
    free_masks = np.full(len(lengths), max_predictions, np.int32)  # of each row, of which there are at most p
    free_parts = np.full(len(lengths), num_parts, np.int32)
    by_space, number = _RowsBySpace(), 0
    order = np.argsort(-lengths, kind="stable")
    starts = np.flatnonzero(np.diff(lengths[order], prepend=-1))
    shortest = lengths[order[-1]] if len(order) else 0
    for parts in np.split(order, starts[1:]):
        if not len(parts):
            continue
        length = int(lengths[parts[0]])
        needed = int(masks[parts[0]])
        space = int(lengths[parts[0]])
        while len(parts):
            space = by_space.least(space)
            if space is None:
                space = sequence_length
                per_row = min(sequence_length // length, max_predictions // needed, num_parts)
                rows = np.arange(number, number - (-len(parts) // per_row))
                number += len(rows)
            else:
                rows = by_space.take(space)
            capacities = np.minimum(np.minimum(space // length, free_masks[rows] // needed), free_parts[rows])
            ends = np.cumsum(capacities)
            placed = np.searchsorted(ends, np.arange(min(len(parts), ends[-1])), side="right")
            rows_of[parts[: len(placed)]] = rows[placed]
            parts = parts[len(placed) :]
            count = np.bincount(placed, minlength=len(rows))
            free_masks[rows] -= count * needed
            free_parts[rows] -= count
            is_open = (space - count * length >= shortest) & (free_masks[rows] > 0) & (free_parts[rows] > 0)
            for added in np.unique(count[is_open]):
                by_space.put(space - int(added) * length, rows[is_open & (count == added)])
            space += 1
    return rows_of


class _RowsBySpace:
    """Rows by how many tokens still fit into them."""

    def __init__(self):
        self.rows, self.spaces = {}, 0  # the bits of `spaces` say which spaces occur

    def least(self, space):
        """The least space of any row that is not below `space`; None if there is none."""
        above = self.spaces >> space
        return space + (above & -above).bit_length() - 1 if above else None

    def take(self, space):
        self.spaces &= ~(1 << space)
        return np.concatenate(self.rows.pop(space))

    def put(self, space, rows):
        self.spaces |= 1 << space
        self.rows.setdefault(space, []).append(rows)
