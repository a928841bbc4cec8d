"""Gradient checkpointing: the same loss, gradients and random states, with dropout."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kbert.layers.encoder_block import EncoderBlock


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_rematerialized_is_plain(in_graph, has_bias):
    x = tf.constant(np.random.default_rng(0).normal(size=(2, 5, 12)), tf.float32)
    bias = tf.zeros((2, 1, 1, 5)) if has_bias else None

    def results(rematerialize):
        keras.utils.set_random_seed(0)
        block = EncoderBlock(num_heads=3, intermediate_dim=20, hidden_dropout=0.4, attention_dropout=0.3)
        block.build(x.shape)
        block.rematerialize = rematerialize
        calls = []
        feed_forward = block.feed_forward.call
        block.feed_forward.call = lambda *args, **kwargs: calls.append(1) or feed_forward(*args, **kwargs)

        def step():
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(block(x, bias, training=True) ** 2)
            return [loss, *tape.gradient(loss, [x, *(v.value for v in block.trainable_variables)])]

        step = tf.function(step) if in_graph else step
        outputs = [*step(), *(v.value for v in block.non_trainable_variables)]
        return len(calls), [np.asarray(value) for value in outputs]

    (once, plain), (twice, again) = results(False), results(True)
    assert (once, twice) == (1, 2)
    for one, other in zip(plain, again, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
