"""Masking without keys on Keras' JAX backend: new noise in every batch, inside tf.data."""

import pytest
from helpers.run_python import run_python

SCRIPT = """
import json
import tensorflow as tf
from helpers.tiny_corpus import make_tokenizer
from kbert.pretraining.masking import TokenMasking

tokens = tf.constant([[3] + [6 + i % 20 for i in range(60)] + [4]] * 4)
batch = {"token_ids": tokens, "padding_mask": tf.ones_like(tokens, tf.bool)}

def positions(seed):
    masking = TokenMasking(make_tokenizer(), max_predictions=9, seed=seed)
    batches = tf.data.Dataset.from_tensors(batch).repeat(5).map(lambda batch: masking(batch=batch)[0]["mask_positions"])
    return [x.numpy().tolist() for x in batches]

print(json.dumps({"first": positions(1), "again": positions(1), "other": positions(2),
                  "none": [positions(None) for _ in range(2)]}))
"""


@pytest.mark.parity
def test_every_batch_has_noise_of_its_own():
    pytest.importorskip("jax")
    result = run_python(SCRIPT, backend="jax")
    batches = [str(batch) for batch in result["first"]]
    assert len(set(batches)) == 5
    assert result["first"] == result["again"] != result["other"]
    assert result["none"][0] != result["none"][1]
