"""Dropout: what it drops, when, and that replicas drop different places."""

import keras
import numpy as np
import pytest
from helpers.run_python import run_python

from kbert.layers.replica_dropout import ReplicaDropout

ONES = np.ones((50, 41), "float32")

REPLICAS = """
import json
import numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
from kbert.layers.replica_dropout import ReplicaDropout

def masks(layers, strategy, steps=3):
    @tf.function
    def step():  # of all layers at once: tracing it takes seconds
        return strategy.run(lambda: tf.stack([layer(tf.ones((40, 51)), training=True) for layer in layers]))
    local = [strategy.experimental_local_results(step()) for _ in range(steps)]
    masks = np.array([[mask.numpy() > 0 for mask in masks] for masks in local])  # [step, replica, layer, ...]
    return np.moveaxis(masks, 2, 0)

mirrored = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with mirrored.scope():
    kbert, stock = ReplicaDropout(0.5, seed=3), keras.layers.Dropout(0.5, seed=3)
    big_seed = ReplicaDropout(0.5, seed=2**31 - 1)
kept, stock_kept, big = masks([kbert, stock, big_seed], mirrored)
(one,) = masks([ReplicaDropout(0.5, seed=3)], tf.distribute.get_strategy())
flat = kept.reshape(6, -1)
agreement = [float(np.mean(flat[i] == flat[j])) for i in range(6) for j in range(i)]
print(json.dumps({
    "stock_replicas_agree": float(np.mean(stock_kept[:, 0] == stock_kept[:, 1])),
    "agreement": agreement,
    "big_seed_agreement": float(np.mean(big[:, 0] == big[:, 1])),
    "replica_0_is_the_single_device": bool(np.array_equal(one[:, 0], kept[:, 0])),
}))
"""


def test_drops_the_rate_and_scales_the_rest():
    y = keras.ops.convert_to_numpy(ReplicaDropout(0.3)(np.ones((300, 401), "float32"), training=True))
    assert abs(np.mean(y == 0.0) - 0.3) < 4 * np.sqrt(0.3 * 0.7 / y.size)
    applied = round(0.3 * 2**16) / 2**16
    np.testing.assert_allclose(np.unique(y), [0.0, 1.0 / (1.0 - applied)], rtol=1e-6)


def test_inference_and_rate_zero_change_nothing():
    np.testing.assert_array_equal(ReplicaDropout(0.3)(ONES), ONES)
    np.testing.assert_array_equal(ReplicaDropout(0.3)(ONES, training=False), ONES)
    layer = ReplicaDropout(0.0)
    np.testing.assert_array_equal(layer(ONES, training=True), ONES)
    assert not layer.variables


def test_every_call_and_every_layer_draws_anew_and_a_seed_repeats():
    first, second = ReplicaDropout(0.5, seed=7), ReplicaDropout(0.5, seed=7)
    a, b = np.array(first(ONES, training=True)), np.array(first(ONES, training=True))
    assert 0.4 < np.mean(a == b) < 0.6
    np.testing.assert_array_equal(a, second(ONES, training=True))
    other = np.array(ReplicaDropout(0.5)(ONES, training=True))
    assert 0.4 < np.mean(a == other) < 0.6


def test_the_gradient_has_the_mask_of_the_forward_pass():
    import tensorflow as tf

    layer, x = ReplicaDropout(0.4), tf.constant(ONES)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, training=True)
    np.testing.assert_array_equal(tape.gradient(y, x), y)


def test_half_precision_keeps_the_rate():
    x = keras.ops.ones((300, 401), dtype="float16")
    y = ReplicaDropout(0.1, dtype="float16")(x, training=True)
    assert keras.backend.standardize_dtype(y.dtype) == "float16"
    assert abs(np.mean(np.array(y) == 0.0) - 0.1) < 4 * np.sqrt(0.09 / (300 * 401))


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5])
def test_a_rate_outside_the_range_is_refused(rate):
    with pytest.raises(ValueError, match=r"`rate` must be in \[0, 1\). Received: "):
        ReplicaDropout(rate)


@pytest.mark.slow  # training/test_mirrored.py
def test_replicas_drop_different_places():
    result = run_python(REPLICAS, forked=True)
    assert result["stock_replicas_agree"] == 1.0  # why this layer exists; when it fails, Keras has mended it
    assert all(0.45 < fraction < 0.55 for fraction in result["agreement"])
    assert 0.45 < result["big_seed_agreement"] < 0.55
    assert result["replica_0_is_the_single_device"]
