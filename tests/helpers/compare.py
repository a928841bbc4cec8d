"""Nested outputs as NumPy arrays, compared."""

import keras
import numpy as np


def to_numpy(tree):
    return keras.tree.map_structure(keras.ops.convert_to_numpy, tree)


def assert_tree_equal(actual, expected, tolerance=0.0):
    """Same structure, shapes and values (at most `tolerance` apart)."""
    keras.tree.assert_same_structure(actual, expected)
    for a, e in zip(keras.tree.flatten(actual), keras.tree.flatten(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(e), rtol=0, atol=tolerance)
