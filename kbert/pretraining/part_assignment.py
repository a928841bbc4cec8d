"""Which pairs share a packed row: best fit, longest first, over a whole pool.

Shapes: S sequence, P predictions, K parts of a packed row, p parts, r rows that are looked at together.
"""

import numpy as np
import tensorflow as tf

_CLOSED = -1  # the space of a row that no part can join any more, or that does not exist yet


def assign_rows(lengths, masks, sequence_length, max_predictions, num_parts):
    """Puts parts into as few rows as best fit finds; a function of the arguments alone.

    From the longest part to the shortest, in their order if equally long, each goes into the row with the least space
    that can still take it: its tokens, its masks, and one more part. If no row has, it begins a new one. Parts
    of one length are placed together, so that the work grows with the number of lengths rather than of parts.

    Args:
        lengths: integers [p], the tokens of each part, special tokens included; 1 to S.
        masks: integers [p], at most how many predictions each needs, 1 to P; equal for parts of equal length.
        sequence_length, max_predictions, num_parts: S, P and K, of a row.

    Returns:
        int32 [p], the row of each part; rows count from 0 and none is empty.

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
        length, needed, space = int(lengths[parts[0]]), int(masks[parts[0]]), int(lengths[parts[0]])
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


def assign_rows_in_graph(lengths, masks, sequence_length, max_predictions, num_parts):
    """What `kbert.pretraining.part_assignment.assign_rows` gives, row for row; it takes several times as long."""
    parts = tf.size(lengths)
    order = tf.argsort(-lengths, stable=True)
    lengths, masks = tf.gather(lengths, order), tf.gather(masks, order)  # the longest first
    shortest = tf.reduce_min(lengths)

    def place(first, before, cursor, number, turn, rows_of, space_of, turn_of, free_masks, free_parts):
        length, needed = lengths[first], masks[first]
        remaining = tf.searchsorted(-lengths, [-length], side="right")[0] - first
        cursor = tf.where(tf.equal(length, before), cursor, length)  # from one space to the next, for one length
        enough = tf.boolean_mask(space_of, space_of >= cursor)
        is_new = tf.equal(tf.size(enough), 0)
        space = tf.where(is_new, sequence_length, tf.reduce_min(tf.concat([enough, [sequence_length]], 0)))
        per_row = tf.minimum(tf.minimum(sequence_length // length, max_predictions // needed), num_parts)
        count = -(-remaining // per_row)
        same = tf.cast(tf.where(tf.equal(space_of, space))[:, 0], tf.int32)
        same = tf.gather(same, tf.argsort(tf.gather(turn_of, same), stable=True))  # as they got this space
        rows = tf.cond(is_new, lambda: tf.range(number, number + count), lambda: same)  # [r]
        masks_left, parts_left = tf.gather(free_masks, rows), tf.gather(free_parts, rows)
        capacities = tf.minimum(tf.minimum(space // length, masks_left // needed), parts_left)
        ends = tf.cumsum(capacities)
        placed = tf.searchsorted(ends, tf.range(tf.minimum(remaining, ends[-1])), side="right")
        added = tf.math.bincount(placed, minlength=tf.size(rows))[: tf.size(rows)]
        masks_left, parts_left, left = masks_left - added * needed, parts_left - added, space - added * length
        is_open = (left >= shortest) & (masks_left > 0) & (parts_left > 0)
        at = rows[:, tf.newaxis]
        order_now = turn + tf.range(tf.size(rows), dtype=tf.int64)
        return (
            first + tf.size(placed),
            length,
            space + 1,
            tf.where(is_new, number + count, number),
            turn + tf.cast(parts, tf.int64),
            tf.tensor_scatter_nd_update(
                rows_of, tf.range(first, first + tf.size(placed))[:, tf.newaxis], tf.gather(rows, placed)
            ),
            tf.tensor_scatter_nd_update(space_of, at, tf.where(is_open, left, _CLOSED)),
            tf.tensor_scatter_nd_update(turn_of, at, order_now),
            tf.tensor_scatter_nd_update(free_masks, at, masks_left),
            tf.tensor_scatter_nd_update(free_parts, at, parts_left),
        )

    zeros = tf.zeros([parts], tf.int32)
    state = (
        *(0, 0, 0, 0, tf.constant(0, tf.int64)),
        *(zeros, zeros + _CLOSED, tf.zeros([parts], tf.int64)),
        *(zeros + max_predictions, zeros + num_parts),
    )
    done = tf.while_loop(
        lambda first, *_: first < parts,
        place,
        state,
        shape_invariants=(*[tf.TensorShape([])] * 5, *[tf.TensorShape([None])] * 5),
        parallel_iterations=1,
    )
    return tf.scatter_nd(order[:, tf.newaxis], done[5], [parts])
