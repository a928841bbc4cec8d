"""AdamW against a NumPy transcription of the original, and what Keras does with it around that."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.numpy_adamw import NumpyAdamW, clip_by_global_norm, learning_rate
from helpers.slow_but import slow_but
from helpers.tiny_bert import tiny_config
from helpers.wrong_values import wrong_values

from kbert.models.classifier import BertClassifier
from kbert.models.pretrainer import BertPretrainer
from kbert.optim import adamw
from kbert.optim.adamw import AdamW
from kbert.optim.lamb import Lamb
from kbert.optim.schedule import WarmupLinearDecay
from kbert.training.logs import optimizer_logs

CONFIG = tiny_config(vocabulary_size=37, max_sequence_length=9, hidden_dropout=0.0, attention_dropout=0.0)
NOT_DECAYED = ("layer_norm/gamma", "layer_norm/beta", "bias")


def gradients_like(variables, scale, rng):
    return [(scale * rng.normal(size=v.shape)).astype("float32") for v in variables]


def run_both(optimizer, reference, variables, apply, steps=50, clip=1.0, seed=3):
    """`steps` updates of both, the gradients' norms on both sides of the threshold; the largest error of a weight."""
    rng = np.random.default_rng(seed)
    schedule = lambda step: learning_rate(step, 0.01, 7, 60)  # noqa: E731
    for step in range(steps):
        scale = 10.0 ** rng.uniform(-3, 1)
        gradients = gradients_like(variables, scale, rng)
        clipped, norm = clip_by_global_norm([g.astype("float64") for g in gradients], clip)
        apply([keras.ops.convert_to_tensor(g) for g in gradients])  # traced, as in a training
        np.testing.assert_allclose(float(optimizer.gradient_norm.numpy()), norm, rtol=1e-5)
        reference.apply(clipped, schedule(step))
    return max(np.max(np.abs(v.numpy() - w)) for v, w in zip(variables, reference.weights.values(), strict=True))


@pytest.mark.parametrize("bias_correction", slow_but((False,), (False, True)))  # True: test_finetuning_parity.py
def test_equals_numpy_over_50_steps_on_a_pretrainer(bias_correction):
    model = BertPretrainer(tiny_config(num_layers=1))
    variables = model.trainable_variables
    before = [v.numpy() for v in variables]
    optimizer = AdamW(WarmupLinearDecay(0.01, 7, 60), bias_correction=bias_correction)
    reference = NumpyAdamW({v.path: v.numpy() for v in variables}, bias_correction=bias_correction)
    optimizer.build(variables)
    error = run_both(optimizer, reference, variables, apply=tf.function(lambda g: optimizer.apply(g, variables)))
    assert error < 2e-6  # float32 against float64, over 50 roundings of weights up to 1
    moved = [np.max(np.abs(v.numpy() - w)) for v, w in zip(variables, before, strict=True)]
    assert min(moved) > 0.01


def test_decays_what_the_original_decays():
    model = BertPretrainer(CONFIG)
    optimizer = AdamW(0.1)
    excluded = {v.path for v in model.trainable_variables if not optimizer.is_decayed(v)}
    assert excluded == {v.path for v in model.trainable_variables if v.path.endswith(NOT_DECAYED)}
    shapes = {v.path: v.shape for v in model.trainable_variables}
    assert {path for path, shape in shapes.items() if len(shape) == 1} <= excluded  # gamma, beta, biases
    kept = {path for path in shapes if path not in excluded}
    tables = {path for path in kept if "embedding" in path}
    assert sorted(shapes[path][0] for path in tables) == [2, 9, 37]  # segments, positions, word pieces
    # Six kernels a block (query, key, value, output, two of the feed-forward), pooler, masked-LM transform, NSP.
    assert len(kept - tables) == 2 * 6 + 3


def test_a_weight_without_gradient_signal_only_decays():
    decayed = keras.Variable(np.full((3,), 2.0, "float32"), name="kernel")
    excluded = keras.Variable(np.full((3,), 2.0, "float32"), name="bias")
    optimizer = AdamW(0.5, weight_decay=0.1)
    optimizer.apply([tf.zeros((3,)), tf.zeros((3,))], [decayed, excluded])
    np.testing.assert_allclose(decayed.numpy(), 2.0 - 0.5 * 0.1 * 2.0, rtol=1e-6)
    np.testing.assert_array_equal(excluded.numpy(), 2.0)


def test_the_compiled_update_equals_the_plain_one(monkeypatch, caplog):
    def train(threshold):
        monkeypatch.setattr(adamw, "_COMPILED_FROM", threshold)
        rng = np.random.default_rng(0)
        variables = [
            keras.Variable(rng.normal(size=shape).astype("float32"), name=f"k{shape[0]}") for shape in [(13, 7), (5, 3)]
        ]
        optimizer = AdamW(0.01)

        @tf.function
        def step(gradients):
            optimizer.apply(gradients, variables)

        for _ in range(10):
            step([tf.constant(g) for g in gradients_like(variables, 1.0, rng)])
        return [v.numpy() for v in variables]

    adamw._compiled.cache_clear()
    plain_weights = train(10**9)
    assert adamw._compiled.cache_info().misses == 0
    compiled_weights = train(1)
    assert adamw._compiled.cache_info().misses == 1
    for plain, compiled in zip(plain_weights, compiled_weights, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=0, atol=5e-7)
    assert "AutoGraph" not in caplog.text  # which warned of what it could not rewrite in a user's tf.function


@pytest.mark.parametrize("threshold", [1, 10**9])
def test_indexed_slices_equal_the_dense_gradient(monkeypatch, threshold):
    monkeypatch.setattr(adamw, "_COMPILED_FROM", threshold)
    values, rows = np.random.default_rng(1).normal(size=(4, 3)).astype("float32"), np.array([2, 0, 2, 5])  # 2 twice
    dense = np.zeros((7, 3), "float32")
    np.add.at(dense, rows, values)
    start = np.random.default_rng(2).normal(size=(7, 3)).astype("float32")
    results = []
    for gradient in (tf.IndexedSlices(tf.constant(values), tf.constant(rows), tf.constant([7, 3])), tf.constant(dense)):
        table = keras.Variable(start, name="embeddings")
        optimizer = AdamW(0.1)
        for _ in range(3):
            optimizer.apply([gradient], [table])
        results.append((table.numpy(), optimizer.gradient_norm.numpy()))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-6)
    np.testing.assert_allclose(results[0][1], np.linalg.norm(dense), rtol=1e-6)
    assert np.all(results[0][0] != start)  # rows without a gradient decay too


def test_fine_tuning_gives_indexed_slices_and_they_train():
    model = BertClassifier(CONFIG, num_labels=2)
    batch = {
        "token_ids": np.array([[1, 2, 3, 2]]),
        "segment_ids": np.zeros((1, 4), int),
        "padding_mask": np.ones((1, 4), bool),
    }
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(batch)["logits"])
    gradients = tape.gradient(loss, model.trainable_variables)
    reference = NumpyAdamW({v.path: v.numpy() for v in model.trainable_variables})
    dense = [tf.convert_to_tensor(g).numpy().astype("float64") for g in gradients]
    AdamW(0.1).apply(gradients, model.trainable_variables)
    reference.apply(clip_by_global_norm(dense, 1.0)[0], 0.1)
    for variable, expected in zip(model.trainable_variables, reference.weights.values(), strict=True):
        np.testing.assert_allclose(variable.numpy(), expected, atol=2e-6, err_msg=variable.path)


def test_no_clipping():
    variable = keras.Variable(np.zeros((3,), "float32"), name="kernel")
    optimizer = AdamW(1.0, global_clipnorm=None)
    optimizer.apply([tf.constant([300.0, 0.0, 400.0])], [variable])
    np.testing.assert_allclose(variable.numpy(), -np.array([0.1, 0, 0.1]) / np.sqrt(0.001), rtol=1e-4)
    assert optimizer.gradient_norm.numpy() == 500.0


@pytest.mark.slow  # test_equals_numpy_over_50_steps_on_a_pretrainer
@pytest.mark.usefixtures("eagerly")
def test_survives_saving_with_its_exclusions(tmp_path):
    model = BertPretrainer(dataclasses.replace(CONFIG, num_layers=1))
    optimizer = AdamW(WarmupLinearDecay(0.01, 2, 20), weight_decay=0.3, exclude_from_decay=("layer_norm", "query"))
    optimizer.exclude_from_weight_decay(var_names=["pooler"])
    model.compile(optimizer, weighted_metrics=None)
    rng = np.random.default_rng(5)
    inputs = {
        "token_ids": rng.integers(0, 37, (3, 7)),
        "segment_ids": np.zeros((3, 7), int),
        "padding_mask": np.ones((3, 7), bool),
        "mask_positions": rng.integers(0, 7, (3, 2)),
    }
    labels = {"mlm_logits": rng.integers(0, 37, (3, 2)), "nsp_logits": np.array([0, 1, 1])}
    model.fit(inputs, labels, epochs=2, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert isinstance(loaded.optimizer, AdamW)
    assert loaded.optimizer.exclude_from_decay == ("layer_norm", "query", "pooler")
    assert loaded.optimizer.get_config() == optimizer.get_config()
    for one in (model, loaded):
        one.fit(inputs, labels, epochs=2, verbose=0)
    for a, b in zip(model.trainable_variables, loaded.trainable_variables, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("optimizer_class", [AdamW, Lamb])
def test_variables_are_excluded_by_their_whole_path(optimizer_class):
    with keras.name_scope("pooler"), keras.name_scope("dense"):
        pooler = keras.Variable(np.ones(2, "float32"), name="kernel")
    with keras.name_scope("dense"):
        dense = keras.Variable(np.ones(2, "float32"), name="kernel")
    optimizer = optimizer_class(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_list=[dense])
    for one in (optimizer, optimizer_class.from_config(optimizer.get_config())):
        assert (one.is_decayed(pooler), one.is_decayed(dense)) == (True, False)


def test_norms_are_those_of_their_variables_in_any_order():
    a, b = (keras.Variable(np.zeros(2, "float32"), name=name) for name in "ab")
    optimizer = AdamW(0.1)
    optimizer.build([a, b])
    optimizer.apply([tf.constant([1.0, 0.0]), tf.constant([100.0, 0.0])], [b, a])
    assert optimizer.gradient_norms_by_path() == {"a": 100.0, "b": 1.0}


def test_gradient_accumulation_clips_the_mean():
    variable = keras.Variable(np.zeros((2,), "float32"), name="kernel")
    optimizer = AdamW(1.0, gradient_accumulation_steps=2)
    for gradient in ([6.0, 0.0], [0.0, 8.0]):
        optimizer.apply([tf.constant(gradient)], [variable])
    np.testing.assert_allclose(optimizer.gradient_norm.numpy(), 5.0)
    reference = NumpyAdamW({"kernel": np.zeros(2)})
    reference.apply([np.array([0.6, 0.8])], 1.0)
    np.testing.assert_allclose(variable.numpy(), reference.weights["kernel"], rtol=1e-5)


def test_the_logged_rate_is_the_last_one_with_accumulated_gradients():
    variable = keras.Variable(np.zeros(2, "float32"), name="kernel")
    optimizer = AdamW(WarmupLinearDecay(1.0, 0, 100), 0.0, bias_correction=True, gradient_accumulation_steps=4)
    for _ in range(8):
        before = variable.numpy()
        optimizer.apply([tf.constant([1.0, 1.0])], [variable])
    assert optimizer_logs(optimizer)["learning_rate"] == pytest.approx((before - variable.numpy())[0], rel=1e-3)


def test_under_a_loss_scale():
    variable = keras.Variable(np.ones((3,), "float32"), name="kernel")
    inner = AdamW(0.1)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=4.0)
    optimizer.apply([tf.constant([40.0, 0.0, 30.0])], [variable])  # scaled by 4: the norm is 12.5
    np.testing.assert_allclose(inner.gradient_norm.numpy(), 12.5)
    reference = NumpyAdamW({"kernel": np.ones(3)})
    reference.apply([np.array([0.8, 0.0, 0.6])], 0.1)
    np.testing.assert_allclose(variable.numpy(), reference.weights["kernel"], rtol=1e-5)
    before = variable.numpy()
    optimizer.apply([tf.constant([np.inf, 0.0, 0.0])], [variable])  # overflow: no update
    np.testing.assert_array_equal(variable.numpy(), before)


@pytest.mark.parametrize("optimizer", [AdamW, Lamb])
def test_bad_arguments(optimizer):
    wrong_values(
        optimizer,
        ({"clip_scope": "core"}, "clip_scope"),
        ({"beta_2": 1.0}, "beta_2"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"exclude_from_decay": "bias"}, "list of strings"),
        ({"clipnorm": 1.0}, "global_clipnorm"),
        ("global_clipnorm", 0, r"a number in \(0, inf\). Received: 0"),
        ("weight_decay", -1, r"a number in \[0, inf\). Received: -1"),
        ("learning_rate", -1e-3, r"a number in \[0, inf\). Received: -0.001"),
        ("learning_rate", "1e-3", r"a number in \[0, inf\). Received: '1e-3'"),
        ("layer_decay", 0.0, r"a number in \(0, 1\]. Received: 0.0"),
        ("layer_decay", 1.5, r"a number in \(0, 1\]. Received: 1.5"),
        owner=f"{optimizer.__name__}: .*",
    )


@pytest.mark.parametrize("threshold", [1, 2**40])  # all compiled, none
def test_layer_decay_is_a_rate_for_each_layer(monkeypatch, threshold):
    monkeypatch.setattr(adamw, "_COMPILED_FROM", threshold)
    model = BertPretrainer(CONFIG)
    variables = model.trainable_variables
    rng = np.random.default_rng(0)
    gradients = gradients_like(variables, 1e-4, rng)
    reference = NumpyAdamW({v.path: v.numpy() for v in variables})
    before = [v.numpy() for v in variables]
    optimizer = AdamW.from_config(AdamW(0.01, layer_decay=0.5).get_config())
    optimizer.apply([keras.ops.convert_to_tensor(g) for g in gradients], variables)
    reference.apply([g.astype("float64") for g in gradients], 0.01)
    factors = {
        "embeddings": 0.125,
        "encoder_block_0": 0.25,
        "encoder_block_1": 0.5,
        "pooler": 1.0,
        "masked_lm_head": 1.0,
        "next_sentence_head": 1.0,
    }
    for variable, old, new in zip(variables, before, reference.weights.values(), strict=True):
        expected = old + factors[variable.path.split("/")[0]] * (new - old)
        np.testing.assert_allclose(variable.numpy(), expected, atol=1e-6)
    assert {v.path.split("/")[0] for v in variables} == set(factors)


def test_layer_decay_with_frozen_layers_and_elsewhere():
    model = BertClassifier(CONFIG)
    model.encoder.embeddings.trainable = model.encoder.blocks[0].trainable = False
    optimizer = AdamW(layer_decay=0.5)
    optimizer.build(model.trainable_variables)
    assert set(optimizer._factors) == {0.5, 1.0}
    others = [keras.Variable(np.zeros(3), name="embeddings_of_mine"), keras.Variable(np.zeros(3), name="kernel")]
    optimizer = AdamW(layer_decay=0.5)
    optimizer.build(others)
    assert optimizer._factors == [1.0, 1.0]
