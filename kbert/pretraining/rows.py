"""Pairs → masked rows: one pair each, or packed with several short ones, which attend only to themselves.

Where most pairs of a corpus are longer than half a row, few fit together, and no assignment fills the rows: further
short pairs may then take the space that is left.

Shapes: B batch (rows), S sequence, P predictions, K parts of a packed row, p pairs (parts), t tokens, m masks.
"""

import tensorflow as tf

from kbert.pretraining.pairs import PairTable, further_pairs, special_tokens
from kbert.pretraining.part_assignment import assign_rows, assign_rows_in_graph
from kbert.stateless_random import fold_in, permutation
from kbert.text.packing import pack_ranges

LEAST_TOKENS = 24  # of a further pair, [CLS] and [SEP] included: shorter ones have hardly any context


def plain_rows(masking, values, table, *, sequence_length, next_sentence=True):
    """Lays out each pair in a row of its own, ``[CLS] A [SEP] B [SEP]``, and masks it.

    Args:
        values: dict of a pool's columns with one value per token: ``token_ids``, and ``entity_ids`` if there are any.
        table: `PairTable` of B pairs.
        next_sentence: bool; False: single segments, ``[CLS] A [SEP]``.

    Returns:
        (inputs, labels, weights), as `kbert.pretraining.pretraining_dataset` describes them.
    """
    inputs, mask_ids, mask_weights = mask_pairs(masking, values, table, sequence_length, next_sentence)
    labels, weights = {"mlm_logits": mask_ids}, {"mlm_logits": mask_weights}
    if next_sentence:
        labels["nsp_logits"] = tf.cast(table.is_random, tf.int32)
        weights["nsp_logits"] = tf.ones_like(table.is_random, tf.float32)
    return inputs, labels, weights


def mask_pairs(masking, values, table, sequence_length, next_sentence):
    """Each pair in a row of its own, masked: what `TokenMasking` returns. Arguments as for `plain_rows`."""
    tokenizer, ranges = masking.tokenizer, table[:4] if next_sentence else table[:2]
    special = {name: getattr(tokenizer, name) for name in ("cls_id", "sep_id", "pad_id")}
    batch, entity_ids = pack_ranges(values["token_ids"], *ranges, sequence_length=sequence_length, **special), None
    if "entity_ids" in values:
        zeros = dict.fromkeys(special, 0)
        entity_ids = pack_ranges(values["entity_ids"], *ranges, sequence_length=sequence_length, **zeros)["token_ids"]
    return masking.call(batch, keys=table.keys, entity_ids=entity_ids)


def part_lengths(table, next_sentence=True):
    """Tokens of each pair with its [CLS] and [SEP], int32 [p]."""
    return table.a_length + table.b_length + special_tokens(next_sentence)


def row_of_pairs(masking, table, sequence_length, num_parts, next_sentence=True, in_graph=False):
    """The row that each pair of a pool goes into, int32 [p]; needs the lengths of the pairs alone.

    Args:
        masking, table, sequence_length, next_sentence: see `kbert.pretraining.rows.plain_rows`.
        in_graph: bool, whether no Python may run; it takes longer.
    """
    lengths = part_lengths(table, next_sentence)
    if in_graph:
        masks = masking.most_masks(lengths)
        return assign_rows_in_graph(lengths, masks, sequence_length, masking.max_predictions, num_parts)

    def assign(lengths, masks):
        return assign_rows(lengths, masks, sequence_length, masking.max_predictions, num_parts)

    rows = tf.numpy_function(assign, [lengths, masking.most_masks(lengths)], tf.int32, stateful=False)
    return tf.ensure_shape(rows, [None])


def count_rows(rows):
    """How many rows a result of `row_of_pairs` has, int32 scalar."""
    return tf.reduce_max(tf.concat([rows, [-1]], 0)) + 1


def arrange_in_rows(table, rows, key):
    """The pairs in the order of their rows, and the rows in a random order: with best fit the full ones come first.

    Args:
        rows: int32 [p], of `row_of_pairs`.
        key: int64 scalar, decides the order of the rows.

    Returns:
        (`PairTable`, splits int32 [B + 1]): row r has the pairs splits[r] to splits[r + 1] - 1.
    """
    number = count_rows(rows)
    rows = tf.gather(permutation(key, number), rows)
    order = tf.argsort(rows, stable=True)
    splits = tf.pad(tf.cumsum(tf.math.bincount(rows, minlength=number)), [[1, 0]])
    return PairTable(*(tf.gather(column, order) for column in table)), splits


def packed_rows(masking, values, table, splits, *, sequence_length, num_parts, next_sentence=True):
    """Lays out several pairs in each row and masks each as it would be masked in a row of its own.

    Every part begins at position 0 with [CLS]. Its masks and their replacements are drawn with its own key: they are
    those of `plain_rows`. The predictions of a row are those of its parts, one part after another.

    Args:
        masking, values, sequence_length, next_sentence: see `kbert.pretraining.rows.plain_rows`.
        table: `PairTable` in the order of the rows.
        splits: int32 [B + 1], see `arrange_in_rows`.

    Returns:
        (inputs, labels, weights), as `kbert.pretraining.pretraining_dataset` describes them for packed rows.

    Source: Krell et al. 2021 (arXiv 2107.02027), section 3.2.
    """
    number, predictions = tf.size(splits) - 1, masking.max_predictions
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
    labels, weights = {"mlm_logits": mask_ids}, {"mlm_logits": tf.cast(is_mask, tf.float32)}
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
        some = tf.cast(tf.where(group == number)[:, 0], tf.int32)  # [q]
        pairs = PairTable(*(tf.gather(column, some) for column in table))
        inputs, mask_ids, weights = mask_pairs(masking, values, pairs, widths[number], next_sentence)
        columns = (some[:, tf.newaxis], tf.range(masking.max_predictions), inputs["mask_positions"], mask_ids)
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
    masking, pool, table, rows, key, sequence_length, num_parts, next_sentence=True, random_next_rate=0.5
):
    """Adds one pair to each row that has space for it, from a random sentence of the pool on.

    The pairs that are there stay as they are, and so does the number of rows. A row is filled if a part of
    `LEAST_TOKENS` tokens with its masks still fits in. What is added is a function of the arguments alone.

    Args:
        pool: `TokenPool`; its tokens are not read.
        rows: int32 [p], the row of each pair, of `kbert.pretraining.rows.row_of_pairs`.
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
