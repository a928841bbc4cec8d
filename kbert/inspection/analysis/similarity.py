"""How similar the layers of two models are.

Shapes: n words (or texts), L layers, H hidden.
"""

import numpy as np


def layer_similarity(x, y) -> np.ndarray:
    """Linear CKA of each layer of one model and each of another on the same n words.

    `x` is [n, L, H], `y` [n, L', H'], the result float64 [L, L'] in [0, 1]: 1 where one is the
    other up to rotation, scale and shift, 0 if one does not vary.

    Source: Kornblith et al. 2019, "Similarity of Neural Network Representations Revisited",
    equation 3 with linear kernels.
    """
    x, y = np.asarray(x, "float64"), np.asarray(y, "float64")
    if x.ndim != 3 or y.ndim != 3 or len(x) != len(y) or not len(x):
        raise ValueError(
            "layer_similarity: expected the states of the same words, [n, L, H] twice. "
            f"Received: shapes {x.shape} and {y.shape}"
        )
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    x_norm, y_norm = ([_hsic(states[:, k], states[:, k]) for k in range(states.shape[1])] for states in (x, y))
    found = np.zeros((x.shape[1], y.shape[1]))
    for i, a in enumerate(x_norm):
        for j, b in enumerate(y_norm):
            if a > 0 and b > 0:
                found[i, j] = _hsic(x[:, i], y[:, j]) / np.sqrt(a * b)
    return found


def _hsic(x, y):
    """The squared Frobenius norm of the cross-covariance, but for the factor that cancels."""
    if len(x) < min(x.shape[1], y.shape[1]):
        return ((x @ x.T) * (y @ y.T)).sum()  # an equal number, cheaper for few words
    return ((x.T @ y) ** 2).sum()
