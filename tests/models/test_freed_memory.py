"""A model that was trained leaves memory, and with it its gradients, optimizer and graphs."""

import contextlib
import ctypes
import gc
import os
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.run_python import run_python
from tensorflow.python.framework.ops import gradient_registry

import kbert
from kbert.keras_compat import custom_gradient


def train(prepare=lambda model: model, config=None, **options):
    """Pre-trains for a step; returns a weak reference to the last weight."""
    sizes = {"num_layers": 1, "hidden_dim": 32, "num_heads": 2, "intermediate_dim": 128, "max_sequence_length": 32}
    model = prepare(kbert.BertPretrainer(kbert.BertConfig(**{"vocabulary_size": 1024} | sizes | (config or {}))))
    model.compile(**options)
    inputs = {"token_ids": np.full((16, 32), 7), "mask_positions": np.tile(np.arange(8, dtype="int32"), (16, 1))}
    labels = {"mlm_logits": np.full((16, 8), 7), "nsp_logits": np.arange(16) % 2}
    batches = tf.data.Dataset.from_tensors((inputs, labels))  # of a static shape: GELU and cross-entropy are compiled
    assert np.isfinite(model.fit(batches, verbose=0).history["loss"]).all()
    return weakref.ref(model.trainable_variables[-1].value)


def rematerialize(model):
    for block in model.encoder.blocks:
        block.rematerialize = True
    return model


def with_lora(model):
    model.enable_lora(2)
    return model


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prepare": rematerialize},
        {"prepare": with_lora, "optimizer": "adam"},  # all gradients are dense
        {"config": {"activation": "silu"}},
    ],
    ids=["plain", "rematerialized", "keras-adam", "silu"],
)
def test_nothing_of_a_model_is_kept(options):
    before = set(gradient_registry.list())
    weight = train(**options)
    gc.collect()
    assert weight() is None
    assert not [name for name in set(gradient_registry.list()) - before if name.startswith("CustomGradient")]


def memory():
    """MiB of this process in memory, without what is free."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # glibc only
        ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux, which says how much memory is used")
def test_ten_models_take_the_memory_of_four():
    """Each has 44 MiB of weights and moments, and few operations."""

    def train():
        token_ids = keras.Input((5,), dtype="int32")
        rows = keras.layers.Embedding(60_000, 64)(token_ids)
        rows = kbert.layers.LayerNorm()(kbert.layers.LoraDense(64)(rows))
        model = kbert.models.CompatibleModel(token_ids, {"logits": kbert.layers.LoraDense(2)(rows[:, 0])})
        model.compile(kbert.AdamW(), {"logits": kbert.optim.ClassificationLoss()})
        model.fit(np.full((8, 5), 7), np.array([0, 1] * 4), verbose=0)

    used = []
    for _ in range(10):
        train()
        used.append(memory())
    assert used[9] - used[3] < 6 * 5, used


REPLICAS = """
import json
import numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras, kbert
from helpers.tiny_bert import tiny_config
from tensorflow.python.framework.ops import gradient_registry

inputs = {"token_ids": np.full((8, 7), 6)}, {"embedding": 1 + np.arange(8).reshape(4, 2)}
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
for optimizer in ("sgd", kbert.AdamW):
    with strategy.scope():
        model = kbert.BertSentenceEncoder(tiny_config(num_layers=1))
        model.enable_lora(2)
        model.compile(optimizer if optimizer == "sgd" else optimizer())
    rows, labels = (tf.data.Dataset.from_tensor_slices(part) for part in inputs)
    model.fit(tf.data.Dataset.zip(rows.batch(8), labels.batch(4)), verbose=0)
print(json.dumps([name for name in gradient_registry.list() if name.startswith("CustomGradient")]))
"""


def test_replicas_keep_nothing():
    assert run_python(REPLICAS, forked=True) == []


def _square_gradient(upstream, x, scale, doubled):
    return (upstream * scale * doubled,)


@custom_gradient(_square_gradient)
def _square(x, scale):
    return scale * x * x, (2.0 * x,)


@pytest.mark.parametrize("way", ["step", "graph", "xla", "nested", "later", "loop", "branch", "second"])
def test_custom_gradient(way):
    """In eager steps, graphs, and functions whose gradient TensorFlow derives after they were traced."""
    x = tf.constant([1.0, -2.0, 3.0])
    inner = tf.function(lambda x: _square(x, 0.5), reduce_retracing=True)
    inner.get_concrete_function(x)

    def looped(x):
        return tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, _square(x, 0.5)), (0, x))[1]

    function = {
        "later": inner,
        "nested": tf.function(lambda x: inner(tf.identity(x))),
        "loop": looped,
        "branch": lambda x: tf.cond(tf.reduce_sum(x) > 0.0, lambda: _square(x, 0.5), lambda: x),
    }.get(way, lambda x: _square(x, 0.5))

    def derivative(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    def second(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            slope = derivative(x)
        return tape.gradient(slope, x)

    if way not in ("step", "later"):
        derivative = tf.function(derivative, jit_compile=way == "xla")
    expected = {"loop": 0.5 * x**3, "second": tf.ones_like(x)}.get(way, x)
    np.testing.assert_allclose(second(x) if way == "second" else derivative(x), expected, rtol=1e-6)


def test_gradients_without_their_operations_cannot_be_saved(tmp_path):
    module = tf.Module()
    module.function = tf.function(lambda x: _square(x, 0.5), input_signature=[tf.TensorSpec([3], tf.float32)])
    with pytest.raises(ValueError, match="experimental_custom_gradients=False"):
        tf.saved_model.save(module, tmp_path / "module")
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, tmp_path / "module", options=options)
    loaded = tf.saved_model.load(tmp_path / "module")
    x = tf.constant([1.0, -2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = loaded.function(x)
    np.testing.assert_allclose(tape.gradient(y, x), x)
