"""Attention bias, pooler, normalisation, activations, initialiser: their values."""

import math
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from kbert.config import ACTIVATIONS
from kbert.layers.activation import activation_function
from kbert.layers.attention_bias import AttentionBias
from kbert.layers.layer_norm import LayerNorm
from kbert.layers.lora_dense import LoraDense
from kbert.layers.pooler import Pooler
from kbert.layers.task_head import TaskHead

MASK = np.array([[True, True, False]])
PARTS = np.array([[1, 2, 2, 0, 0], [3, 3, 1, 1, 1]], "int32")
NO = -10000.0


def test_attention_bias_hides_padding_keys_from_every_query():
    np.testing.assert_array_equal(AttentionBias()(MASK), [[[[0.0, 0.0, NO]]]])


def test_causal_attention_bias_hides_what_is_to_the_right_too():
    expected = [[[[0.0, NO, NO], [0.0, 0.0, NO], [0.0, 0.0, NO]]]]
    np.testing.assert_array_equal(AttentionBias(causal=True)(MASK), expected)


def test_packed_attention_bias_is_block_diagonal():
    bias = np.array(AttentionBias()(PARTS > 0, PARTS))
    assert bias.shape == (2, 1, 5, 5)
    visible = (PARTS[:, :, None] == PARTS[:, None, :]) & (PARTS > 0)[:, None, :]
    np.testing.assert_array_equal(bias[:, 0] == 0.0, visible)
    assert set(np.unique(bias)) == {0.0, NO}


def test_pooler_takes_the_first_token_of_each_part_and_zeros_where_there_is_none():
    x = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")
    pooler, plain = Pooler(num_parts=3), Pooler()
    pooler(x, PARTS), plain(x)
    plain.set_weights(pooler.get_weights())
    pooled = np.array(pooler(x, PARTS))
    for row, part, place in ((0, 1, 0), (0, 2, 1), (1, 1, 2), (1, 3, 0)):
        np.testing.assert_allclose(pooled[row, part - 1], np.array(plain(x[:, place:]))[row], atol=1e-6)
    assert np.all(pooled[0, 2] == 0.0) and np.all(pooled[1, 1] == 0.0)


def test_pooler_of_the_last_token():
    x = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")
    first, last, packed = Pooler(), Pooler(token="last"), Pooler(num_parts=3, token="last")
    mask = np.array([[True, True, True, False, False], [True] * 5])
    first(x), last(x, padding_mask=mask), packed(x, PARTS)
    for pooler in (last, packed):
        pooler.set_weights(first.get_weights())
    pooled = np.array(last(x, padding_mask=mask))
    for row, place in ((0, 2), (1, 4)):
        np.testing.assert_allclose(pooled[row], np.array(first(x[:, place:]))[row], atol=1e-6)
    pooled = np.array(packed(x, PARTS))
    for row, part, place in ((0, 1, 0), (0, 2, 2), (1, 1, 4), (1, 3, 1)):
        np.testing.assert_allclose(pooled[row, part - 1], np.array(first(x[:, place:]))[row], atol=1e-6)
    assert np.all(pooled[0, 2] == 0.0) and np.all(pooled[1, 1] == 0.0)


def test_layer_norm_has_bert_epsilon_and_computes_in_float32():
    x = np.array([[1e-5, -1e-5, 3e-5, -3e-5]], "float32")  # variance 5e-10: Keras' own epsilon would swallow it
    np.testing.assert_allclose(LayerNorm()(x), x / math.sqrt(5e-10 + 1e-12), rtol=1e-5)
    wide = np.array([[1000.0, 1001.0, 1002.0, 1003.0]], "float32")
    y = LayerNorm(dtype="mixed_bfloat16")(keras.ops.cast(wide, "bfloat16"))
    rounded = np.array(keras.ops.cast(keras.ops.cast(wide, "bfloat16"), "float32"))
    expected = (rounded - rounded.mean()) / np.sqrt(rounded.var() + 1e-12)
    np.testing.assert_allclose(keras.ops.cast(y, "float32"), expected, atol=0.02)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_layer_norm_of_large_static_shapes_computes_in_float32_too(dtype):
    x = tf.cast(np.random.default_rng(1).normal(2.0, 3.0, (512, 128)), dtype)
    layer = LayerNorm(dtype=dtype)
    expected = LayerNorm(dtype="float32")(tf.cast(x, "float32"))
    in_graph = tf.function(lambda x: layer(x))
    np.testing.assert_allclose(tf.cast(in_graph(x), "float32"), expected, rtol=2**-8, atol=1e-6)  # rounded once
    np.testing.assert_array_equal(in_graph(tf.ones_like(x)), np.zeros(x.shape))


@pytest.mark.parametrize("axes", [(5, 12), (2, 5, 12)])
def test_layer_norm_in_training_equals_inference_and_its_derived_gradient(axes):
    rng = np.random.default_rng(1)
    layer, x, dy = LayerNorm(), *(tf.constant(rng.normal(2.0, 3.0, axes).astype("float32")) for _ in range(2))
    layer(x)
    layer.set_weights([rng.normal(size=12), rng.normal(size=12)])
    results = {}
    for training in (False, True):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=training)
        results[training] = [y, *tape.gradient(y, [x, layer.gamma.value, layer.beta.value], dy)]
    for plain, by_hand in zip(results[False], results[True], strict=True):
        np.testing.assert_allclose(by_hand, plain, atol=5e-5)


def test_layer_norm_in_training_under_xla_and_with_unknown_axes():
    layer, x = LayerNorm(), np.random.default_rng(1).normal(size=(4, 5, 12)).astype("float32")
    expected = layer(x)
    for jit in (False, True):
        run = tf.function(
            lambda x: layer(x, training=True), input_signature=[tf.TensorSpec((None, None, 12))], jit_compile=jit
        )
        np.testing.assert_allclose(run(x), expected, atol=1e-5)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("bfloat16", 4e-2)])
def test_layer_norm_of_large_static_shapes_is_compiled(monkeypatch, dtype, tolerance):
    from kbert.layers import layer_norm

    calls, compiled = [], layer_norm._normalised
    monkeypatch.setattr(layer_norm, "_normalised", lambda *args: calls.append(1) or compiled(*args))
    rng = np.random.default_rng(1)
    x, dy = (tf.cast(rng.normal(2.0, 3.0, (4, 128, 128)), dtype) for _ in range(2))
    layer = LayerNorm(dtype="mixed_bfloat16" if dtype == "bfloat16" else None)
    layer(x)
    layer.set_weights([rng.normal(size=128), rng.normal(size=128)])
    results, counts = [], []
    for shape in ((None, None, 128), (4, 128, 128)):
        calls.clear()

        @tf.function(input_signature=[tf.TensorSpec(shape, dtype)])
        def run(x):
            y = layer(x)
            return y, *tf.gradients(y, [x, layer.gamma.value, layer.beta.value], dy)  # as attributions need them

        results.append([tf.cast(part, "float32") for part in run(x)])
        counts.append(len(calls))
    assert counts == [0, 1]
    for plain, fused in zip(*results, strict=True):
        np.testing.assert_allclose(fused, plain, atol=tolerance * np.abs(plain).max())


@pytest.mark.parametrize("name", ["gelu_tanh", "gelu_erf"])
@pytest.mark.parametrize(
    "dtype, tolerance, jit_compile",
    [
        ("float32", 1e-5, False),
        ("bfloat16", 4e-2, True),
        pytest.param("float32", 1e-5, True, marks=pytest.mark.slow),
        pytest.param("bfloat16", 4e-2, False, marks=pytest.mark.slow),
    ],
)
def test_the_compiled_gelu_equals_the_plain_one_and_its_derived_gradient(name, dtype, tolerance, jit_compile):
    x, gelu = tf.cast(tf.linspace(-9.0, 9.0, 2**16), dtype), activation_function(name)

    def run(function, is_compiled):
        @tf.function(jit_compile=jit_compile)
        def graph():
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
            return y, tape.gradient(y, x)

        names = {node.op for node in graph.get_concrete_function().graph.as_graph_def().node}
        assert bool(names & {"Tanh", "Erf", "Erfc"}) is not is_compiled
        return [tf.cast(value, "float32") for value in graph()]

    plain = run(lambda x: keras.ops.gelu(x, approximate=name == "gelu_tanh"), False)
    trained = run(lambda x: gelu(x, training=True), True)
    inferred = run(gelu, name == "gelu_tanh")  # TensorFlow fuses the other form with the matmul before it
    for expected, *values in zip(plain, trained, inferred, strict=True):
        for value in values:
            np.testing.assert_allclose(value, expected, atol=tolerance)  # the plain form is 0 where the value is -4e-6


def test_the_gelu_of_batches_of_any_length_and_op_by_op_is_not_compiled():
    gelu = activation_function("gelu_tanh")
    graph = tf.function(gelu, input_signature=[tf.TensorSpec((None, 256))]).get_concrete_function().graph
    assert "Tanh" in {node.op for node in graph.as_graph_def().node}
    x = tf.random.normal((2**8, 2**8))
    np.testing.assert_array_equal(gelu(x), keras.ops.gelu(x, approximate=True))


@pytest.mark.parametrize("axes", [(7,), (2, 7)])
@pytest.mark.parametrize("layer", [LoraDense(5), TaskHead(5)])
def test_dense_in_training_equals_inference_and_its_derived_gradient(layer, axes):
    rng, results = np.random.default_rng(2), {}
    x, dy = (tf.constant(rng.normal(size=(*axes, width)).astype("float32")) for width in (3, 5))
    layer(x)
    kernel, bias = layer.trainable_variables
    bias.assign(rng.normal(size=5))
    for training in (False, True):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=training)
        results[training] = [y, *tape.gradient(y, [x, kernel.value, bias.value], dy)]
    for plain, by_hand in zip(results[False], results[True], strict=True):
        np.testing.assert_allclose(by_hand, plain, atol=1e-5)


@pytest.mark.parametrize("layer", [LoraDense, TaskHead])
def test_the_bias_gradient_in_bfloat16_is_summed_in_float32(layer):
    """TensorFlow's own BiasAddGrad adds 4,096 rows in bfloat16."""
    # Without instructions for bfloat16, a product rounds the sums of its blocks.
    limit = 2**-8 if "avx512_bf16" in pathlib.Path("/proc/cpuinfo").read_text() else 2**-6
    layer, x = layer(8, dtype="mixed_bfloat16"), tf.zeros((4096, 4))
    layer(x)
    dy = tf.cast(1.0 + np.random.default_rng(3).normal(size=(4096, 8)), "bfloat16")
    exact, errors = tf.reduce_sum(tf.cast(dy, "float32"), axis=0), {}
    for training in (False, True):
        with tf.GradientTape() as tape:
            y = tf.cast(layer(x, training=training), "bfloat16")
        (gradient,) = tape.gradient(y, [layer.trainable_variables[1].value], dy)
        errors[training] = float(tf.reduce_max(tf.abs(gradient / exact - 1.0)))
    assert errors[True] < limit < 0.05 < errors[False]


def test_activations():
    x = np.linspace(-4, 4, 41).astype("float32")
    formula = {
        "gelu_tanh": lambda v: 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
        "gelu_erf": lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))),
        "relu": lambda v: max(v, 0.0),
        "silu": lambda v: v / (1 + math.exp(-v)),
        "tanh": math.tanh,
    }
    assert set(formula) == set(ACTIVATIONS)
    for name, function in formula.items():
        np.testing.assert_allclose(activation_function(name)(x), [function(float(v)) for v in x], atol=1e-6)
    with pytest.raises(ValueError, match="Received: 'gelu'"):
        activation_function("gelu")


@pytest.mark.parametrize("units", [0, -1, 2.0, True])
def test_task_head_needs_a_number_of_outputs(units):
    with pytest.raises(ValueError, match="`units` must be a positive integer. Received:"):
        TaskHead(units)


@pytest.mark.parametrize("dropout", [-0.1, 1, "0.1", True])
def test_task_head_needs_a_dropout_below_one(dropout):
    with pytest.raises(ValueError, match=r"`dropout` must be a number in \[0, 1\). Received:"):
        TaskHead(2, dropout)


@pytest.mark.parametrize("epsilon", [0, -1, "small"])
def test_layer_norm_needs_a_positive_epsilon(epsilon):
    with pytest.raises(ValueError, match=r"`epsilon` must be a number in \(0, inf\). Received:"):
        LayerNorm(epsilon)
