"""Several batches to a step, several steps to an execution: the same weights, counted as the same steps."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny_pretraining as tiny

from kbert.optim.accumulated_schedule import AccumulatedSchedule
from kbert.optim.schedule import WarmupLinearDecay
from kbert.training.resume import fit_steps
from kbert.training.training_state import optimizer_logs

NO_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0}


def batches(batch_size):
    """All with as many predictions in each row: the mean of means is the mean."""

    def make_dataset(start_step):
        rows = tiny.make_dataset(0, 2 * tiny.B).map(lambda x, y, w: (x, y, {k: tf.ones_like(v) for k, v in w.items()}))
        return rows.rebatch(batch_size).skip(start_step * 2 * tiny.B // batch_size)

    return make_dataset


def train(tmp_path, optimizer, make_dataset, steps=4, **compiled):
    model = tiny.compiled_model(optimizer, **NO_DROPOUT)
    if compiled:
        model.compile(optimizer, **compiled)
    history = fit_steps(model, make_dataset, steps, tmp_path, window=2)
    return history, model.get_weights()


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_accumulated_batches_are_one_large_batch(tmp_path):
    large, expected = train(tmp_path / "large", keras.optimizers.SGD(0.2), batches(2 * tiny.B))

    def accumulating():
        return keras.optimizers.SGD(0.2, gradient_accumulation_steps=4)

    train(tmp_path / "parts", accumulating(), batches(tiny.B // 2), steps=2)
    parts, found = train(tmp_path / "parts", accumulating(), batches(tiny.B // 2))  # goes on from step 2
    assert [record["step"] for record in parts] == [record["step"] for record in large] == [2, 4]
    assert_close(found, expected)
    np.testing.assert_allclose([r["loss"] for r in parts], [r["loss"] for r in large], rtol=1e-4)


def test_several_steps_in_one_execution_are_the_same_steps(tmp_path):
    plain, expected = train(tmp_path / "plain", keras.optimizers.SGD(0.2), batches(2 * tiny.B))
    at_once, found = train(tmp_path / "at_once", keras.optimizers.SGD(0.2), batches(2 * tiny.B), steps_per_execution=2)
    assert [record["step"] for record in at_once] == [record["step"] for record in plain] == [2, 4]
    assert_close(found, expected)


def test_updates_are_counted_where_they_are_an_array():
    """On JAX the iterations of an optimizer that accumulates gradients are computed, and have no `numpy`."""

    class Optimizer:
        iterations, gradient_accumulation_steps = np.int64(3), 2
        _learning_rate = AccumulatedSchedule(WarmupLinearDecay(1.0, 0, 10), 2)

    assert optimizer_logs(Optimizer())["learning_rate"] == pytest.approx(0.8)  # of the third update
