"""Counter-based randomness: equal to a plain-Python SplitMix64, uniform, independent, and never of the batch."""

import numpy as np
import pytest
import tensorflow as tf

from kbert import stateless_random as random

MASK = 2**64 - 1


def splitmix(state):
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def plain_fold(key, *data):
    for number in data:
        key = splitmix((key + (number + 1) * 0x9E3779B97F4A7C15) & MASK)
    return key - 2**64 if key >= 2**63 else key


def test_splitmix_reference_values():
    # The first numbers of the published splitmix64.c for seed 1234567.
    published = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [plain_fold(1234567, i) % 2**64 for i in range(5)] == published
    assert [int(random.fold_in(1234567, i)) % 2**64 for i in range(5)] == published


@pytest.mark.parametrize("key, data", [(0, (0,)), (12345, (3, 7)), (-1, (2**40, 5, 0)), (2**64 - 3, (1,)), (7, (-2,))])
def test_fold_equals_plain_python(key, data):
    assert int(random.fold_in(key, *data)) == plain_fold(key, *data)


def test_fold_broadcasts_and_orders():
    keys = random.fold_in(tf.constant([[1], [2]]), tf.range(3), tf.constant(4, tf.int64))
    assert keys.shape == (2, 3) and keys.dtype == tf.int64
    assert int(keys[1, 2]) == plain_fold(2, 2, 4)
    assert int(random.fold_in(1, 2, 3)) != int(random.fold_in(1, 3, 2))
    assert int(random.fold_in(random.fold_in(5, 6), 7)) == int(random.fold_in(5, 6, 7))


def test_numbers_depend_on_their_key_and_column_only():
    keys = random.fold_in(3, tf.range(11))
    wide = random.uniform(keys, 9)
    np.testing.assert_array_equal(random.uniform(tf.gather(keys, [7, 2]), 5), tf.gather(wide, [7, 2])[:, :5])
    compiled = tf.function(lambda k: random.uniform(k, 9))(keys)
    np.testing.assert_array_equal(compiled, wide)


def test_uniform_is_uniform_and_uncorrelated():
    drawn = random.uniform(random.fold_in(0, 1, tf.range(60_000)), 6).numpy()
    assert drawn.dtype == np.float32 and drawn.min() >= 0 and drawn.max() < 1
    counts = np.stack([np.histogram(column, 50, (0, 1))[0] for column in drawn.T])
    chi_square = ((counts - 1200) ** 2 / 1200).sum(1)  # 49 degrees of freedom
    assert (chi_square < 100).all() and (chi_square > 18).all()
    off_diagonal = np.corrcoef(drawn.T) - np.eye(6)
    assert np.abs(off_diagonal).max() < 0.02
    neighbours = np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]  # neighbouring examples
    assert abs(neighbours) < 0.02


def test_numbers_drawn_from_a_key_are_not_the_keys_folded_from_it():
    key = random.fold_in(9, 1)
    assert not np.isin(random._draw(key, 100), random.fold_in(key, tf.range(100))).any()


def test_random_integers_cover_their_range_evenly():
    drawn = random.random_integers(random.fold_in(4, tf.range(30_000)), 2, 2, 9).numpy()
    assert drawn.min() == 2 and drawn.max() == 8
    assert (np.abs(np.bincount(drawn.ravel())[2:] - 60_000 / 7) < 400).all()


def test_random_integers_broadcast_their_bounds():
    high = tf.constant([[1], [5], [2**31 - 1]])
    drawn = random.random_integers(random.fold_in(4, tf.range(3)), 1000, 0, high).numpy()
    assert (drawn[0] == 0).all() and set(drawn[1]) == set(range(5))
    assert drawn[2].max() > 2**30.9 and drawn[2].min() >= 0


def test_permutation():
    order = random.permutation(random.fold_in(2, 5), 1001).numpy()
    assert sorted(order) == list(range(1001)) and (order != np.arange(1001)).mean() > 0.98
    np.testing.assert_array_equal(order, random.permutation(random.fold_in(2, 5), 1001))
    assert (order != random.permutation(random.fold_in(2, 6), 1001).numpy()).mean() > 0.98
