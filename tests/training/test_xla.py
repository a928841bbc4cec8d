"""A training step compiled as a whole equals one that is not (dropout 0)."""

import contextlib

import numpy as np
from helpers import tiny_pretraining as tiny
from helpers.run_eagerly import run_eagerly

from kbert.optim import adamw


def test_compiled_training_equals_plain(monkeypatch):
    weights, histories = [], []
    for jit_compile in (False, True):
        if jit_compile:  # with the optimizer's own kernels inside the compiled step
            monkeypatch.setattr(adamw, "_COMPILED_FROM", 1)
        model = tiny.compiled_model(jit_compile=jit_compile, num_layers=1, hidden_dropout=0.0, attention_dropout=0.0)
        with contextlib.nullcontext() if jit_compile else run_eagerly():
            history = model.fit(tiny.make_dataset(), steps_per_epoch=3, epochs=2, shuffle=False, verbose=0).history
        histories.append(history)
        weights.append(model.get_weights())
    for name, values in histories[0].items():
        np.testing.assert_allclose(histories[1][name], values, rtol=1e-5, err_msg=name)
    for plain, compiled in zip(*weights, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-5, atol=1e-5)
