"""Outputs, weights and answers, compared."""

import keras
import numpy as np


def to_numpy(tree):
    return keras.tree.map_structure(keras.ops.convert_to_numpy, tree)


def assert_tree_equal(actual, expected, tolerance=0.0):
    """Same structure, shapes and values (at most `tolerance` apart)."""
    keras.tree.assert_same_structure(actual, expected)
    for a, e in zip(keras.tree.flatten(actual), keras.tree.flatten(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(e), rtol=0, atol=tolerance)


def assert_arrays_equal(some, others):
    """As many arrays, bit for bit the same."""
    for one, other in zip(some, others, strict=True):
        np.testing.assert_array_equal(one, other)


def assert_same_answers(found, expected):
    """The answers of pipelines: strings exactly, numbers to 1e-5."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        one, other = np.asarray(found[name]), np.asarray(value)
        assert one.shape == other.shape, name
        if other.dtype == object:
            np.testing.assert_array_equal(one, other, err_msg=name)
        else:
            np.testing.assert_allclose(one, other, atol=1e-5, rtol=0, err_msg=name)


def softmax(logits):
    """In NumPy, over the last axis."""
    logits = np.asarray(logits)
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)
