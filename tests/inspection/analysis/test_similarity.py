"""Linear CKA against its definition."""

import numpy as np
import pytest

from kbert.inspection.analysis.similarity import layer_similarity


@pytest.mark.parametrize("rows", [4, 50])
def test_it_is_the_alignment_of_centred_gram_matrices(rng_states, rows):
    x, y = rng_states(rows, 7), rng_states(rows, 9)
    centre = np.eye(rows) - 1 / rows

    def hsic(k, m):  # Gretton et al. 2005; the factor 1 / (rows - 1)² cancels
        return np.trace(k @ centre @ m @ centre)

    k, m = x @ x.T, y @ y.T
    assert _alignment(x, y) == pytest.approx(hsic(k, m) / np.sqrt(hsic(k, k) * hsic(m, m)), rel=1e-9)


def test_rotation_scale_and_shift_change_nothing(rng_states):
    x = rng_states(50, 7)
    rotation, _ = np.linalg.qr(rng_states(7, 7))
    assert _alignment(x, 3 * x @ rotation + 5) == pytest.approx(1, rel=1e-9)
    assert _alignment(x, rng_states(50, 7)) < 0.5
    assert _alignment(x, np.ones((50, 3))) == 0


def test_all_layers(rng_states):
    x, y = (np.stack([rng_states(30, 5) for _ in range(count)], axis=1) for count in (2, 3))
    found = layer_similarity(x, y)
    expected = [[_alignment(x[:, i], y[:, j]) for j in range(3)] for i in range(2)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_wrong_shapes_are_named(rng_states):
    with pytest.raises(ValueError, match=r"Received: shapes \(3, 1, 2\) and \(4, 1, 2\)"):
        layer_similarity(np.ones((3, 1, 2)), np.ones((4, 1, 2)))
    with pytest.raises(ValueError, match=r"Received: shapes \(3, 1, 2\) and \(3, 1\)"):
        layer_similarity(np.ones((3, 1, 2)), np.ones((3, 1)))


@pytest.fixture
def rng_states():
    rng = np.random.default_rng(0)
    return lambda rows, size: rng.normal(size=(rows, size))


def _alignment(x, y):
    return layer_similarity(x[:, np.newaxis], y[:, np.newaxis])[0, 0]
