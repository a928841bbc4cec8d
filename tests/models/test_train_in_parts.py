"""Micro-batches, one after the other, give the loss, the metrics and the update of the whole batch."""

import keras
import numpy as np
import pytest
from helpers import tiny_pretraining as tiny
from helpers.run_eagerly import run_eagerly
from helpers.slow_but import slow_but

from kbert.models.regressor import BertRegressor
from kbert.optim import losses
from kbert.optim.adamw import AdamW
from kbert.optim.losses import WholeBatch

SMALL = {"num_layers": 1, "hidden_dropout": 0.0, "attention_dropout": 0.0}
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(4, 3)).astype("float32")
WEIGHTS = np.array([1.0, 0.5, 0.0, 2.0], "float32")


@pytest.mark.parametrize(
    "loss, labels, logits",
    [
        (losses.ClassificationLoss(), np.array([0, 2, 1, -1]), LOGITS),
        (losses.MaskedLanguageModelLoss(), np.array([[0, -1], [2, 1], [1, 1], [-1, 0]]), np.stack([LOGITS] * 2, 1)),
        (losses.NextSentenceLoss(), np.array([[0], [1], [-1], [1]]), LOGITS[:, None, :2]),
        (losses.SpanLoss(), np.array([0, 2, 1, -1]), LOGITS),
        (losses.SpanLoss(), np.array([[0, 1], [2, 3], [1, 2], [-1, 3]]), LOGITS),
        (losses.MultiLabelLoss(), np.array([[0, 1, -1], [1, 1, 1], [0, 0, 0], [-1, -1, 1]]), LOGITS),
        (losses.RegressionLoss(), np.array([-1.0, 0.5, 2.0, 3.0]), LOGITS[:, 0]),
    ],
)
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_the_weight_of_a_batch_is_known_without_logits(loss, labels, logits, weights):
    expected = np.sum(loss.values_and_weights(labels, logits, weights)[1])
    np.testing.assert_allclose(loss.total_weight(labels, weights), expected)


def test_replicas_with_unequal_numbers_of_rows_report_the_loss_of_the_whole_batch():
    """Keras adds up their gradients, and weighs R times the value of each of R replicas with its rows."""
    values, rows = np.array([1.0, 5.0, 2.0, 4.0, 3.0], "float32"), np.array([3, 2])
    parts = np.split(values, [3])
    fractions = [
        float(WholeBatch(np.float32(5.0), 1, np.float32(rows.mean() / len(part))).share(part.sum(), 0.0))
        for part in parts
    ]
    np.testing.assert_allclose(2 * np.dot(fractions, rows) / rows.sum(), values.mean(), rtol=1e-6)


@pytest.fixture(scope="module")
def whole():
    with run_eagerly():
        return train()


def train(**arguments):
    model = tiny.compiled_model(AdamW(0.01, global_clipnorm=0.5), **SMALL)
    if arguments:
        model.compile(model.optimizer, **arguments)
    history = model.fit(tiny.make_dataset(), steps_per_epoch=3, epochs=2, shuffle=False, verbose=0).history
    return model, history


@pytest.mark.parametrize(
    "arguments", [{"micro_batches": 3}, pytest.param({"micro_batches": 2, "jit_compile": True}, marks=pytest.mark.slow)]
)
def test_micro_batches_are_the_whole_batch(whole, arguments):
    """Their numbers of predictions differ, so that the mean of their means would be another loss."""
    model, history = train(**arguments)
    assert model.optimizer.iterations.numpy() == 6
    for name, values in whole[1].items():
        np.testing.assert_allclose(history[name], values, rtol=1e-5, atol=1e-6, err_msg=name)
    for expected, found in zip(whole[0].get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


ALL = (("auto", 1), ("auto", 2), ("mse", 1), ("mse", 2))


@pytest.mark.parametrize("runs", slow_but((ALL[::3],), (ALL[::3], ALL)), ids=len)
@pytest.mark.usefixtures("eagerly")
def test_one_output_and_another_loss(runs):
    inputs, _, _ = next(iter(tiny.make_dataset()))
    inputs = {name: value.numpy() for name, value in inputs.items() if name != "mask_positions"}
    scores = np.linspace(-1, 1, tiny.B).astype("float32")
    histories = []
    for loss, micro_batches in runs:
        keras.utils.set_random_seed(1)
        model = BertRegressor(tiny.config(**SMALL))
        model.compile(AdamW(0.01), loss, micro_batches=micro_batches)
        histories.append(model.fit(inputs, scores, batch_size=tiny.B, epochs=3, shuffle=False, verbose=0).history)
    for history in histories:
        np.testing.assert_allclose(history["loss"], histories[0]["loss"], rtol=1e-5)


@pytest.mark.parametrize("form", slow_but(("one",), ("one", "list", "dict")))
@pytest.mark.usefixtures("eagerly")
def test_one_loss_for_two_outputs(form):
    class Mine(losses.MaskedLanguageModelLoss):  # a class that Keras cannot save
        pass

    loss = Mine()
    given = {"one": loss, "list": [loss, loss], "dict": {"mlm_logits": loss, "nsp_logits": loss}}[form]
    found = []
    for losses_of_compile, micro_batches in (({"mlm_logits": Mine(), "nsp_logits": Mine()}, 1), (given, 1), (given, 3)):
        model = tiny.compiled_model(**SMALL)
        model.compile(AdamW(0.01, global_clipnorm=None), losses_of_compile, micro_batches=micro_batches)
        history = model.fit(tiny.make_dataset(), steps_per_epoch=1, shuffle=False, verbose=0).history
        found.append([history["loss"][0], float(model.optimizer.gradient_norm)])
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_weights_that_no_loss_reaches_stay_as_they_are():
    model = tiny.compiled_model(**SMALL)
    before = [weight.numpy() for weight in model.encoder.pooler.weights]
    model.compile(AdamW(0.01), {"mlm_logits": losses.MaskedLanguageModelLoss(), "nsp_logits": None}, micro_batches=2)
    with pytest.warns(UserWarning, match="Gradients do not exist for variables .*pooler"):
        model.fit(tiny.make_dataset(), steps_per_epoch=1, verbose=0)
    for expected, weight in zip(before, model.encoder.pooler.weights, strict=True):
        np.testing.assert_array_equal(weight.numpy(), expected)


def test_wrong_numbers():
    model = tiny.compiled_model(**SMALL)
    for wrong in (0, True, 1.5):
        with pytest.raises(ValueError, match="`micro_batches` must be a positive integer. Received"):
            model.compile(micro_batches=wrong)
    accumulating = AdamW(0.1, gradient_accumulation_steps=2)
    for optimizer in (accumulating, keras.optimizers.LossScaleOptimizer(accumulating)):
        with pytest.raises(ValueError, match="Received: micro_batches=2, .*gradient_accumulation_steps=2"):
            model.compile(optimizer, micro_batches=2)
    model.compile(micro_batches=4)
    with pytest.raises(ValueError, match="divide into micro_batches=4. Received: 6 rows a replica"):
        model.fit(tiny.make_dataset(), steps_per_epoch=1, verbose=0)
