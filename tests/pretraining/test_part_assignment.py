"""Which pairs share a row: within every limit, close to full, and a function of the lengths alone."""

import numpy as np
import pytest
import tensorflow as tf

from kbert.pretraining.part_assignment import assign_rows
from kbert.pretraining.part_assignment_in_graph import assign_rows_in_graph

in_one_graph = tf.function(assign_rows_in_graph, autograph=False)


def best_fit(lengths, masks, sequence_length, max_predictions, num_parts):
    """The algorithm part by part: how many rows it takes."""
    rows = []  # [tokens, masks, parts] that are free
    for part in np.argsort(-lengths, kind="stable"):
        fitting = [r for r in rows if r[0] >= lengths[part] and r[1] >= masks[part] and r[2] >= 1]
        if not fitting:
            fitting = [[sequence_length, max_predictions, num_parts]]
            rows += fitting
        row = min(fitting, key=lambda row: row[0])
        row[0], row[1], row[2] = row[0] - lengths[part], row[1] - masks[part], row[2] - 1
    return len(rows)


@pytest.mark.parametrize("sequence_length, max_predictions, num_parts", [(64, 10, 4), (64, 20, 30), (512, 80, 32)])
@pytest.mark.parametrize("mean", [7, 20, 60])
def test_limits_and_number_of_rows(sequence_length, max_predictions, num_parts, mean):
    lengths = np.clip(np.random.default_rng(mean).geometric(1 / mean, 700) + 4, 5, sequence_length)
    masks = np.clip(np.round(lengths * 0.15), 1, max_predictions).astype(int)
    rows = assign_rows(lengths, masks, sequence_length, max_predictions, num_parts)
    assert rows.dtype == np.int32 and set(rows) == set(range(rows.max() + 1))
    assert np.bincount(rows, lengths).max() <= sequence_length
    assert np.bincount(rows, masks).max() <= max_predictions
    assert np.bincount(rows).max() <= num_parts
    expected = best_fit(lengths, masks, sequence_length, max_predictions, num_parts)
    assert abs(rows.max() + 1 - expected) <= 0.01 * expected  # equal spaces are not taken in the same order
    in_graph = in_one_graph(
        *(some.astype("int32") for some in (lengths, masks)), sequence_length, max_predictions, num_parts
    )
    np.testing.assert_array_equal(in_graph, rows)
    shuffled = np.random.default_rng(0).permutation(700)
    again = assign_rows(lengths[shuffled], masks[shuffled], sequence_length, max_predictions, num_parts)
    assert again.max() == rows.max()  # so that counting rows needs no order


def test_by_hand():
    assert assign_rows([5, 3, 4], [1, 1, 1], 8, 2, 2).tolist() == [0, 0, 1]
    assert assign_rows([2, 2, 2], [1, 1, 1], 8, 2, 4).tolist() == [0, 0, 1]  # masks
    assert assign_rows([2, 2, 2], [1, 1, 1], 8, 8, 2).tolist() == [0, 0, 1]  # parts
    assert assign_rows([8, 8], [1, 1], 8, 1, 1).tolist() == [0, 1]
    assert assign_rows([7, 6, 2, 1], [1] * 4, 8, 9, 9).tolist() == [0, 1, 1, 0]  # the least space that is enough
    assert assign_rows([], [], 8, 2, 2).tolist() == []
    empty = tf.zeros([0], tf.int32)
    assert assign_rows_in_graph(empty, empty, 8, 2, 2).numpy().tolist() == []
