"""Norms by layer against the gradients and the weights before and after a step."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny_pretraining as tiny
from helpers.stored_models import make_model

from kbert.inspection.board.samples import AttentionEntropy, layer_norms, layer_of, weight_samples
from kbert.models.pretrainer import BertPretrainer
from kbert.optim.adamw import AdamW
from kbert.optim.lamb import Lamb

RATE = 0.01


def trained(optimizer, steps=3):
    """A model after some steps, its last gradients, and its weights before the last step."""
    keras.utils.set_random_seed(3)
    model = BertPretrainer(tiny.config(hidden_dropout=0.0, attention_dropout=0.0))
    model.compile(optimizer)
    for inputs, labels, weights in tiny.make_dataset().take(steps):
        before = [variable.numpy() for variable in model.trainable_variables]
        with tf.GradientTape() as tape:
            loss = model.compute_loss(inputs, labels, model(inputs, training=True), weights, training=True)
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients = [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]
        model.optimizer.apply([keras.ops.convert_to_tensor(g) for g in gradients], model.trainable_variables)
    return model, gradients, before


def by_layer(model, arrays):
    totals = {}
    for variable, array in zip(model.trainable_variables, arrays, strict=True):
        layer = layer_of(variable.path)
        totals[layer] = totals.get(layer, 0.0) + float((array.astype("float64") ** 2).sum())
    return {layer: np.sqrt(total) for layer, total in totals.items()}


@pytest.mark.parametrize(
    "optimizer, tolerance",
    [
        (lambda: AdamW(RATE), 1e-3),
        (lambda: AdamW(RATE, bias_correction=True, layer_decay=0.5, weight_decay=0.3), 1e-3),
        (lambda: Lamb(RATE), 0.03),
    ],
)
def test_norms_are_those_of_the_last_step(optimizer, tolerance):
    model, gradients, before = trained(optimizer())
    norms = layer_norms(model, RATE)
    layers = {"embeddings", "encoder_block_0", "pooler", "masked_lm_head", "next_sentence_head"}
    assert norms.keys() == {"weight", "gradient", "update_ratio"} and norms["weight"].keys() == layers
    after = [variable.numpy() for variable in model.trainable_variables]
    weights, updates = by_layer(model, after), by_layer(model, [a - b for a, b in zip(after, before, strict=True)])
    assert norms["weight"] == pytest.approx(weights, rel=1e-5)
    assert norms["gradient"] == pytest.approx(by_layer(model, gradients), rel=1e-4)
    assert norms["update_ratio"] == pytest.approx({n: updates[n] / weights[n] for n in layers}, rel=tolerance)
    total = np.sqrt(sum(norm**2 for norm in norms["gradient"].values()))
    assert total == pytest.approx(float(model.optimizer.gradient_norm.numpy()), rel=1e-4)


def test_other_optimizers_have_norms_of_weights():
    model, _, _ = trained(keras.optimizers.Adam(RATE), steps=1)
    assert layer_norms(model, RATE).keys() == {"weight"}


def test_a_variable_without_a_gradient_has_none():
    variables = [keras.Variable([3.0, 4.0], name=name) for name in ("one", "two", "three")]
    optimizer = AdamW(RATE)
    optimizer.build(variables)
    optimizer.apply([keras.ops.convert_to_tensor([0.0, 2.0]), keras.ops.convert_to_tensor([3.0, 4.0])], variables[1:])
    assert optimizer.gradient_norms_by_path() == {"one": 0.0, "two": 2.0, "three": 5.0}


def test_weight_samples_are_spread_over_rows_and_columns():
    model = keras.Sequential([keras.Input((1024,)), keras.layers.Dense(1024, name="wide"), keras.layers.Dense(2)])
    wide = model.layers[0].kernel
    wide.assign(np.arange(1024.0 * 1024).reshape(1024, 1024))
    samples = weight_samples(model)
    assert len(samples) == 2 and samples[model.layers[1].kernel.path].shape == (2048,)
    values = samples[wide.path].astype("int64")
    assert 60_000 < len(values) <= 65_536
    assert len(set(values % 1024)) == 1024 and len(set(values // 1024)) == 1024


def test_entropy_of_attention():
    model = tiny.model()
    inputs, _, _ = next(iter(tiny.make_dataset(5)))
    entropies = AttentionEntropy(model, inputs, rows=2)()
    probs = model.encoder.with_outputs("attention_probs")({k: inputs[k][:2] for k in model.encoder.input})
    probs = probs["attention_probs"][0].numpy()
    mask = inputs["padding_mask"].numpy()[:2]
    expected = [-sum(p * np.log(p) for p in probs[b, a, s] if p > 0) for b, s in np.argwhere(mask) for a in range(3)]
    assert len(entropies) == 1
    np.testing.assert_allclose(entropies[0], expected, rtol=1e-4)
    classifier = make_model("classification")
    ids = np.array([[5, 6, 7], [5, 6, 0]])
    for batch in ({"token_ids": ids}, ids, ids.tolist()):  # as `fit` takes them
        assert [len(layer) for layer in AttentionEntropy(classifier, batch)()] == [5 * 3, 5 * 3]
    with pytest.raises(ValueError, match="input_ids is token_ids here"):
        AttentionEntropy(classifier, {"input_ids": ids})
    for name in ("query", "key"):
        projection = getattr(model.encoder.blocks[0].attention, name)
        for variable in projection.trainable_variables:
            variable.assign(np.zeros(variable.shape))
    uniform = AttentionEntropy(model, inputs, rows=2)()[0]
    np.testing.assert_allclose(uniform, np.repeat(np.log(mask.sum(1)), 3 * mask.sum(1)), rtol=1e-5)
