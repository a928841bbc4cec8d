"""Masking without keys on Keras' JAX backend: new noise in every batch, also inside tf.data."""

import pytest
from helpers.run_python import run_python

SCRIPT = """
import json
import tensorflow as tf
from helpers.tiny_corpus import make_tokenizer
from kbert.data.masking import TokenMasking

tokens = tf.constant([[3] + [6 + i % 20 for i in range(60)] + [4]] * 4)
batch = {"token_ids": tokens, "padding_mask": tf.ones_like(tokens, tf.bool)}

def positions(seed, traced):
    masking = TokenMasking(make_tokenizer(), predictions=9, seed=seed)
    def call(_):
        return masking(batch)[0]["mask_positions"]
    numbers = tf.data.Dataset.range(5)
    return [x.numpy().tolist() for x in (numbers.map(call) if traced else map(call, range(5)))]

print(json.dumps({"traced": positions(1, True), "again": positions(1, True), "eager": positions(1, False),
                  "other": positions(2, True), "none": [positions(None, True) for _ in range(2)]}))
"""


@pytest.mark.parity
def test_every_batch_has_noise_of_its_own():
    pytest.importorskip("jax")
    result = run_python(SCRIPT, backend="jax")
    batches = [str(batch) for batch in result["traced"]]
    assert len(set(batches)) == 5
    assert result["traced"] == result["again"] == result["eager"] != result["other"]
    assert result["none"][0] != result["none"][1]
