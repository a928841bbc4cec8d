"""LoRA: exact at the start, trains its matrices and the head alone, is saved, merged and exported."""

import keras
import numpy as np
import pytest
from helpers.batches import BATCH, config, labels_of, plain_batch
from helpers.compare import assert_arrays_equal
from helpers.slow_but import slow_but
from helpers.wrong_values import wrong_values

import kbert
from kbert.models.lora import TARGETS, lora_layers

LABELS = labels_of((BATCH,), 3)


def classifier(**fields):
    keras.utils.set_random_seed(4)
    return kbert.BertClassifier(config(**fields), num_labels=3)


def logits(model):
    return keras.ops.convert_to_numpy(model(plain_batch())["logits"])


def values(variables):
    return [keras.ops.convert_to_numpy(v.value) for v in variables]


def trained(model, steps=3):
    model.compile(keras.optimizers.Adam(0.05), run_eagerly=True)
    model.fit(plain_batch(), LABELS, epochs=steps, batch_size=BATCH, verbose=0)
    return model


@pytest.fixture(scope="module")
def adapted():
    """A base's weights, and the model trained on it with LoRA."""
    model = classifier()
    base = model.get_weights()
    model.enable_lora(2, alpha=3.0)
    return base, trained(model)


def test_the_matrices_of_a_frozen_encoder_learn():
    model = classifier()
    model.encoder.trainable = False
    model.enable_lora(2)
    assert len(model.trainable_variables) == 2 * 2 * 2 + 2


@pytest.mark.parametrize("layers", slow_but((TARGETS,), ("query", ("query", "value"), TARGETS)))
def test_what_learns(layers):
    model = classifier()
    before, frozen = logits(model), values(model.encoder.weights)
    model.enable_lora(2, layers=layers)
    np.testing.assert_array_equal(logits(model), before)
    names = [layers] if isinstance(layers, str) else layers
    assert len(model.encoder.trainable_variables) == 2 * 2 * len(names)  # matrices, blocks, layers of each
    assert len(model.trainable_variables) == 2 * 2 * len(names) + 2  # and the head
    assert {v.path.split("/")[-1] for v in model.encoder.trainable_variables} == {"lora_kernel_a", "lora_kernel_b"}
    trained(model)
    assert np.abs(logits(model) - before).max() > 0.01
    learnt = {id(v) for v in model.encoder.trainable_variables}
    assert_arrays_equal(frozen, values(v for v in model.encoder.weights if id(v) not in learnt))
    assert all(np.any(value != 0) for value in values(model.trainable_variables))


def test_a_layer_computes_the_sum_of_both_products():
    dense = kbert.layers.LoraDense(3)
    dense.build((None, 4))
    dense.enable_lora(2, lora_alpha=5.0)
    dense.lora_kernel_b.assign(np.arange(6.0).reshape(2, 3))
    x = np.random.default_rng(0).normal(size=(7, 4)).astype("float32")
    w, bias, a, b = values([dense._kernel, dense.bias, dense.lora_kernel_a, dense.lora_kernel_b])
    np.testing.assert_allclose(dense(x), x @ w + 2.5 * (x @ a @ b) + bias, rtol=1e-5, atol=1e-6)
    before = dense(x).numpy()
    dense.merge_lora()
    np.testing.assert_allclose(dense(x), before, rtol=1e-5, atol=1e-5)
    assert len(dense.weights) == 2 and dense.trainable_variables == dense.weights


def test_predictions_are_those_of_the_matrices_that_the_layers_have_now():
    """Keras keeps the function that it traced with others."""
    dense = kbert.layers.LoraDense(3)
    inputs = keras.Input((4,))
    model = kbert.models.CompatibleModel(inputs, dense(inputs))
    x = np.ones((2, 4), "float32")
    for value in (1.0, 2.0):
        dense.merge_lora()
        dense.enable_lora(2)
        model.predict(x, verbose=0)
        dense.lora_kernel_b.assign(np.full((2, 3), value))
        np.testing.assert_allclose(model.predict(x, verbose=0), model(x), atol=1e-6)


def test_merged_outputs_are_equal_up_to_rounding(adapted):
    base, model = adapted
    copy = type(model).from_config(model.get_config())
    copy.set_weights(model.get_weights())
    expected = logits(model)
    copy.merge_lora()
    np.testing.assert_allclose(logits(copy), expected, atol=1e-5)
    assert not lora_layers(copy) and len(copy.weights) == len(base) == len(copy.trainable_variables)
    trained(copy, 1)
    np.testing.assert_array_equal(logits(model), expected)


def test_keras_files_keep_the_matrices(adapted, tmp_path):
    _, model = adapted
    model.save(tmp_path / "it.keras")
    loaded = keras.models.load_model(tmp_path / "it.keras")
    np.testing.assert_array_equal(logits(loaded), logits(model))
    assert lora_layers(loaded) == lora_layers(model) != {}
    assert [v.path for v in loaded.trainable_variables] == [v.path for v in model.trainable_variables]
    before = values(loaded.trainable_variables)
    loaded.fit(plain_batch(), LABELS, verbose=0)
    assert all(np.any(a != b) for a, b in zip(before, values(loaded.trainable_variables), strict=True))
    plain = classifier()
    plain.load_weights(_weights_of(classifier(), tmp_path))
    with_lora = classifier()
    with_lora.enable_lora(2)
    trained(with_lora, 1).load_weights(tmp_path / "plain.weights.h5")
    np.testing.assert_array_equal(logits(with_lora), logits(plain))  # LoRA begins anew


def test_keras_files_of_own_models_keep_the_matrices_inside_blocks(tmp_path):
    x = keras.Input((5, 12))
    block = kbert.layers.EncoderBlock(3, 20)
    model = keras.Model(x, block(x))
    block.attention.query.enable_lora(2, lora_alpha=3.0)
    block.attention.query.lora_kernel_b.assign(np.ones((2, 12)))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert list(lora_layers(loaded).values()) == [[2, 3.0]]
    batch = np.random.default_rng(0).normal(size=(2, 5, 12)).astype("float32")
    np.testing.assert_array_equal(loaded(batch), model(batch))
    assert len(loaded.trainable_variables) == len(model.trainable_variables)


def _weights_of(model, folder):
    model.save_weights(folder / "plain.weights.h5")
    return folder / "plain.weights.h5"


def test_arguments():
    wrong_values(
        classifier(num_layers=1).enable_lora,
        ("rank", 0, "a positive integer. Received: 0"),
        ("rank", True, ""),
        ({"rank": 2, "alpha": -1}, r"`alpha` must be a number in \(0, inf\) or None. Received: -1"),
        ({"rank": 2, "layers": ("dense",)}, "`layers` must be some of"),
        ({"rank": 2, "layers": ()}, "`layers` must be some of"),
        owner="BertClassifier.enable_lora: ",
    )


def test_twice_and_with_int8():
    model = classifier(num_layers=1)
    model.enable_lora(2)
    with pytest.raises(ValueError, match="has LoRA already"):
        model.enable_lora(2)
    with pytest.raises(ValueError, match="quantize: a model with LoRA. Call `merge_lora\\(\\)` first"):
        model.quantize("int8")
    model.merge_lora()
    model.quantize("int8")
    with pytest.raises(ValueError, match="LoRA needs float weights. Received: a quantised model"):
        model.enable_lora(2)
