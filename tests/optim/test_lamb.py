"""LAMB against a plain NumPy computation of its algorithm."""

import keras
import numpy as np
import pytest

from kbert.optim.lamb import Lamb

PATHS = ("dense/kernel", "dense/bias", "layer_norm/gamma", "zero/kernel")


def variables():
    rng = np.random.default_rng(1)
    found = [keras.Variable(rng.normal(size=(4, 3)).astype("float32"), name="kernel") for _ in PATHS]
    found[-1].assign(np.zeros((4, 3), "float32"))
    for variable, path in zip(found, PATHS, strict=True):
        variable._path = path
    return found


def numpy_lamb(weights, steps, rate, decay, beta_1=0.9, beta_2=0.999, epsilon=1e-6):
    weights = [w.astype("float64") for w in weights]
    m, v = ([np.zeros_like(w) for w in weights] for _ in range(2))
    for t, gradients in enumerate(steps, start=1):
        norm = np.sqrt(sum((g.astype("float64") ** 2).sum() for g in gradients))
        for i, g in enumerate(gradients):
            g = g / max(1.0, norm)
            m[i] = beta_1 * m[i] + (1 - beta_1) * g
            v[i] = beta_2 * v[i] + (1 - beta_2) * g * g
            update = m[i] / (np.sqrt(v[i]) + epsilon) * np.sqrt(1 - beta_2**t) / (1 - beta_1**t)
            ratio = 1.0
            if i in (0, 3):
                update = update + decay * weights[i]
                size = np.linalg.norm(weights[i])
                ratio = size / np.linalg.norm(update) if size else 1.0
            weights[i] = weights[i] - rate * ratio * update
    return weights


@pytest.mark.parametrize("decay", [0.01, 0.0])
def test_it_is_the_algorithm(decay):
    found, rng = variables(), np.random.default_rng(2)
    start = [v.numpy() for v in found]
    steps = [[rng.normal(size=(4, 3)).astype("float32") * scale for _ in PATHS] for scale in (5.0, 0.1, 0.01)]
    optimizer = Lamb(0.05, weight_decay=decay)
    for gradients in steps:
        optimizer.apply([keras.ops.convert_to_tensor(g) for g in gradients], found)
    for variable, expected in zip(found, numpy_lamb(start, steps, 0.05, decay), strict=True):
        np.testing.assert_allclose(variable.numpy(), expected, rtol=2e-5, atol=1e-6)
