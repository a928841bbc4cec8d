"""Fifty steps of fine-tuning have transformers' losses: same weights, same batches, no dropout."""

import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from golden import make_finetuning as golden
from helpers.hf_bert import hf_name

import kbert
from kbert.optim.schedule import WarmupLinearDecay

FILE = pathlib.Path(golden.__file__).parent / "finetuning.npz"
MODELS = {
    "classification": lambda config: kbert.BertClassifier(config, num_labels=golden.LABELS),
    "regression": kbert.BertRegressor,
    "multiple_choice": kbert.BertMultipleChoice,
}
CASES = [(task, optimizer) for task, optimizers in golden.CASES.items() for optimizer in optimizers]


def fine_tune(task, optimizer):
    """kbert's loss at each step."""
    model = MODELS[task](kbert.BertConfig(**golden.SIZES, hidden_dropout=0.0, attention_dropout=0.0))
    for variable in model.weights:
        if "seed_generator" not in variable.path:
            transposed = variable.path.endswith("/kernel")
            shape = variable.shape[::-1] if transposed else variable.shape
            value = golden.make_weight(hf_name(variable.path), tuple(shape))
            variable.assign(value.T if transposed else value)
    schedule = WarmupLinearDecay(golden.PEAK[task], golden.WARMUP, golden.STEPS)
    model.compile(
        kbert.AdamW(schedule, bias_correction=optimizer == "torch", epsilon=golden.EPSILON[optimizer]),
        jit_compile=False,
    )
    batches = [golden.make_batch(step, task) for step in range(golden.STEPS)]
    name = "score" if task == "regression" else "logits"
    stacked = {key: np.stack([inputs[key] for inputs, _ in batches]) for key in batches[0][0]}
    labels = {name: np.stack([labels for _, labels in batches])}
    data = tf.data.Dataset.from_tensor_slices((stacked, labels))
    history = model.fit(data.repeat(), epochs=golden.STEPS, steps_per_epoch=1, shuffle=False, verbose=0)
    return np.array(history.history["loss"])


@pytest.mark.parametrize(  # the optimizers with one task, the other tasks' losses: test_losses.py
    "task, optimizer",
    [pytest.param(*case, marks=() if case[0] == "classification" else pytest.mark.slow) for case in CASES],
)
def test_the_losses_are_those_of_transformers(task, optimizer):
    with np.load(FILE) as values:
        expected = values[f"{task}/{optimizer}"]
    received = fine_tune(task, optimizer)
    assert len(received) == len(expected) == 50
    assert expected[-5:].mean() < 0.9 * expected[:5].mean()  # something is learnt, else equality would mean little
    np.testing.assert_allclose(received, expected, rtol=1e-4)


@pytest.mark.parity
@pytest.mark.parametrize(  # the others' losses are computed alike
    "task, optimizer",
    [pytest.param(*case, marks=() if case == CASES[0] else pytest.mark.slow) for case in CASES],
)
def test_the_golden_file_is_what_transformers_computes(task, optimizer):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    with np.load(FILE) as values:
        np.testing.assert_allclose(values[f"{task}/{optimizer}"], golden.losses(task, optimizer), rtol=1e-4)


def test_the_schedule_is_the_original_one():
    schedule = WarmupLinearDecay(5e-5, golden.WARMUP, golden.STEPS)
    rates = [float(keras.ops.convert_to_numpy(schedule(step))) for step in range(golden.STEPS)]
    np.testing.assert_allclose(rates, [golden.learning_rate(step, 5e-5) for step in range(golden.STEPS)], rtol=3e-7)
