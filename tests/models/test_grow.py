"""`kbert.models.grow_model`: a larger model that begins with what a smaller one has learned."""

import dataclasses
import re

import keras
import numpy as np
import pytest
from helpers.batches import config, pretraining_batch
from helpers.wrong_values import wrong_inputs

from kbert.models.encoder import BertEncoder
from kbert.models.grow import grow_model
from kbert.models.lora import lora_layers
from kbert.models.pretrainer import BertPretrainer

WIDER = {"hidden_dim": 16, "num_heads": 4, "intermediate_dim": 32}


def small_config(**fields):
    return config(**{"hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16, "num_layers": 2} | fields)


def trained(**options):
    """A pretrainer whose weights are all unlike those of new models."""
    model = BertPretrainer(small_config(), **options)
    rng = np.random.default_rng(1)
    model.set_weights([w + 0.3 * rng.normal(size=w.shape) for w in model.get_weights()])
    return model


def outputs(model):
    return {name: np.array(value) for name, value in model(pretraining_batch(), training=False).items()}


@pytest.mark.parametrize("options", [{}, {"tied": False}, {"next_sentence": False}], ids=["both", "untied", "mlm"])
@pytest.mark.parametrize("factor", [2, 3])
def test_a_wider_model_computes_the_same(options, factor):
    model = trained(**options)
    sizes = {name: factor * value // 2 for name, value in WIDER.items()}
    wider = grow_model(model, dataclasses.replace(model.config, **sizes))
    assert wider.config.hidden_dim == 8 * factor and wider.encoder.blocks[1].count_params() > 0
    expected, found = outputs(model), outputs(wider)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, atol=2e-5 * np.abs(values).max())


def test_lora_is_merged():
    model = trained()
    model.enable_lora(2)
    for block in model.encoder.blocks:
        block.attention.query.lora_kernel_b.assign(np.ones((2, 8)))
    wider = grow_model(model, dataclasses.replace(model.config, **WIDER))
    for name, values in outputs(model).items():
        np.testing.assert_allclose(outputs(wider)[name], values, atol=2e-5 * np.abs(values).max())
    assert len(lora_layers(model)) == 4 and not lora_layers(wider)


@pytest.mark.slow  # test_a_deeper_model_computes_almost_the_same
def test_training_makes_the_copies_of_a_unit_different():
    model = trained()
    wider = grow_model(model, dataclasses.replace(model.config, **WIDER))

    def difference(name):
        value = next(np.array(weight) for weight in wider.weights if weight.path.endswith(name))
        return np.abs(value[..., :8] - value[..., 8:]).max()

    names = ("token_embedding/embeddings", "encoder_block_0/attention/value/bias", "transform/bias")
    assert [difference(name) for name in names] == [0, 0, 0]
    wider.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse", run_eagerly=True)
    targets = {name: np.zeros_like(values) for name, values in outputs(wider).items()}
    wider.fit(pretraining_batch(), targets, epochs=2, verbose=0)
    assert all(difference(name) > 1e-5 for name in names)


def test_a_deeper_model_computes_almost_the_same():
    """With layer norms that scale all units alike, their outputs have equal statistics, and nothing changes at all."""
    model = trained()
    rng = np.random.default_rng(2)
    for weight in model.weights:
        if re.search("feed_forward_layer_norm/gamma", weight.path):
            weight.assign(np.full(8, 0.7))
        elif re.search("feed_forward_layer_norm/beta", weight.path):
            weight.assign(np.full(8, rng.normal()))
    expected = outputs(model)
    for layers in (4, 6):
        found = outputs(grow_model(model, dataclasses.replace(model.config, num_layers=layers)))
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, atol=1e-4 * np.abs(values).max())
    whole = grow_model(model, dataclasses.replace(model.config, num_layers=4, **WIDER), seed=3)
    kernels = {weight.path: np.array(weight) for weight in whole.weights}
    assert not kernels["encoder_block_1/feed_forward/output/kernel"].any()
    assert kernels["encoder_block_1/feed_forward/intermediate/kernel"].any()
    again = grow_model(model, dataclasses.replace(model.config, num_layers=4, **WIDER), seed=3)
    other = grow_model(model, dataclasses.replace(model.config, num_layers=4, **WIDER), seed=4)
    name = "encoder_block_2/attention/query/kernel"
    for weight in again.weights:
        np.testing.assert_array_equal(kernels[weight.path], np.array(weight))
    assert any(np.any(kernels[name] != np.array(w)) for w in other.weights if w.path == name)


def test_a_named_size():
    model = BertPretrainer(dataclasses.replace(small_config(), hidden_dim=128, num_heads=2, intermediate_dim=512))
    found = grow_model(model, "mini").config
    assert (found.num_layers, found.hidden_dim, found.num_heads, found.intermediate_dim) == (4, 256, 4, 1024)
    assert found.vocabulary_size == model.config.vocabulary_size
    assert found.initializer_stddev == pytest.approx(model.config.initializer_stddev / 2**0.5)


def test_what_cannot_grow():
    model = trained()
    wrong_inputs(
        lambda change: grow_model(model, dataclasses.replace(model.config, **change)),
        ({"hidden_dim": 12}, "`hidden_dim` must be a multiple of the model's 8. Received: 12"),
        ({"num_layers": 3}, "`num_layers` must be a multiple of the model's 2. Received: 3"),
        (WIDER | {"num_heads": 2}, "by the same factor"),
        ({"vocabulary_size": 999}, r"except for its sizes. Received others in: \['vocabulary_size'\]"),
    )
    with pytest.raises(TypeError, match="must be a kbert.BertPretrainer. Received: BertEncoder"):
        grow_model(BertEncoder(small_config()), "mini")
    with pytest.raises(ValueError, match='`position_embedding` of the model must be "learned"'):
        waves = BertPretrainer(small_config(position_embedding="sinusoidal"))
        grow_model(waves, dataclasses.replace(waves.config, **WIDER))
