"""A batch in parts, several steps to an execution, a step compiled as a whole: the same weights."""

import contextlib

import keras
import numpy as np
import pytest
from helpers import tiny_pretraining as tiny
from helpers.reused import reused
from helpers.run_eagerly import run_eagerly
from helpers.slow_but import slow_but

from kbert.models.classifier import BertClassifier
from kbert.optim import adamw

NO_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0}


def compiled_model(*compiled):
    model = tiny.compiled_model(keras.optimizers.SGD(0.2), **NO_DROPOUT)
    if compiled:
        model.compile(model.optimizer, **dict(compiled))
    return model


def train(output, steps=4, **compiled):
    model = reused(compiled_model, *compiled.items())
    history = tiny.train(model, tiny.make_dataset, steps, output, window=2)
    return history, model.get_weights()


@pytest.fixture(scope="module")
def plain():
    return train(None)


def assert_same_run(found, expected):
    """The same losses and metrics at the same steps, and the same weights; predictions are unequally many in rows."""
    assert [record["step"] for record in found[0]] == [record["step"] for record in expected[0]] == [2, 4]
    for one, other in zip(found[0], expected[0], strict=True):
        for name in ("loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "mlm_cross_entropy", "learning_rate"):
            np.testing.assert_allclose(one[name], other[name], rtol=1e-5, err_msg=name)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_several_steps_in_one_execution_are_the_same_steps(tmp_path, plain):
    assert_same_run(train(tmp_path, steps_per_execution=2), plain)


def test_a_batch_is_a_step(tmp_path):
    model = tiny.compiled_model(keras.optimizers.SGD(0.2, gradient_accumulation_steps=2))
    with pytest.raises(ValueError, match="micro_batches.* Received: .*gradient_accumulation_steps=2"):
        tiny.train(model, tiny.make_dataset, 2, tmp_path)


def pretrainer(jit_compile):
    return tiny.compiled_model(jit_compile=jit_compile, **NO_DROPOUT), tiny.make_dataset()


def classifier(jit_compile):
    """A smaller program."""
    keras.utils.set_random_seed(7)
    model = BertClassifier(tiny.config(**NO_DROPOUT), num_labels=2, dropout=0.0)
    model.compile(adamw.AdamW(0.01), jit_compile=jit_compile)
    dataset = tiny.make_dataset().map(
        lambda inputs, labels, weights: (
            {name: value for name, value in inputs.items() if name != "mask_positions"},
            {"logits": labels["nsp_logits"]},
        )
    )
    return model, dataset


@pytest.mark.slow  # test_several_steps_in_one_execution_are_the_same_steps
@pytest.mark.parametrize("build", slow_but([classifier], [classifier, pretrainer]))
def test_compiled_training_equals_plain(monkeypatch, build):
    weights, histories = [], []
    for jit_compile in (False, True):
        if jit_compile:  # with the optimizer's own kernels inside the compiled step
            monkeypatch.setattr(adamw, "_COMPILED_FROM", 1)
        model, dataset = build(jit_compile)
        with contextlib.nullcontext() if jit_compile else run_eagerly():
            history = model.fit(dataset, steps_per_epoch=2, epochs=2, shuffle=False, verbose=0).history
        histories.append(history)
        weights.append(model.get_weights())
    for name, values in histories[0].items():
        np.testing.assert_allclose(histories[1][name], values, rtol=1e-5, err_msg=name)
    for plain, compiled in zip(*weights, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-5, atol=1e-5)
