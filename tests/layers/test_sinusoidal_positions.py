"""The Transformer's positions: their formula, and their scale beside new token embeddings."""

import numpy as np
import pytest

from kbert.layers.sinusoidal_positions import SinusoidalPositions


def test_the_formula():
    positions = np.array([[0, 1, 2, 511], [3, 3, 0, 9]], "int32")
    expected = np.zeros((*positions.shape, 6))
    for i in range(3):
        angle = positions / 10000 ** (2 * i / 6)
        expected[..., 2 * i], expected[..., 2 * i + 1] = np.sin(angle), np.cos(angle)
    np.testing.assert_allclose(SinusoidalPositions(6, 1.0)(positions), expected, atol=1e-4)
    np.testing.assert_allclose(SinusoidalPositions(6, 0.02)(positions), 0.02 * expected, atol=2e-6)


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match="`hidden_dim` must be even. Received: 5"):
        SinusoidalPositions(5)
