"""Which pairs share a packed row, by TensorFlow's operations alone: where no Python runs, as in a tf.data service.

Shapes: S sequence, P predictions, K parts of a packed row, p parts, r rows that are looked at together.
"""

import tensorflow as tf

_CLOSED = -1  # the space of a row that no part can join any more, or that does not exist yet


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
