"""Models trained on two replicas in half precision answer out of the SavedModel as they do in Python."""

import pytest
from helpers.run_python import run_python

pytestmark = pytest.mark.slow  # a process of its own, whose CPU is two devices

TRAIN_AND_EXPORT = """
import json, sys
import numpy as np
from kbert.training.hardware import choose_hardware

hardware = choose_hardware("mirrored", sys.argv[1], logical_cpus=2)
import keras
import tensorflow as tf
import kbert
from helpers.tiny_bert import TEXTS, tiny_config, tiny_tokenizer

keras.utils.set_random_seed(3)
with hardware.scope():
    model = kbert.BertClassifier(tiny_config())
    model.compile(kbert.AdamW(0.01), jit_compile=hardware.jit_compile)
pipeline = kbert.build_pipeline(model, tiny_tokenizer())
batch = pipeline.preprocessor(TEXTS)
inputs = {name: batch[name] for name in model.input}
labels = {"logits": tf.constant([0, 1, 0, 1])}
model.fit(tf.data.Dataset.from_tensors((inputs, labels)).repeat(), steps_per_epoch=3, verbose=0)
expected = pipeline.predict(TEXTS, verbose=0)["probabilities"]
op_by_op = pipeline({"text": TEXTS})["probabilities"].numpy()
tf.config.optimizer.set_experimental_options({"remapping": False})
unfused = tf.function(lambda text: pipeline({"text": text})["probabilities"], autograph=False)(tf.constant(TEXTS))
tf.config.optimizer.set_experimental_options({"remapping": True})
path = str(kbert.export(pipeline, sys.argv[2]))
answers = tf.saved_model.load(path).signatures["serving_default"](text=tf.constant(TEXTS))
stored = [shape for name, shape in tf.train.list_variables(path + "/variables/variables") if "OBJECT_GRAPH" not in name]
print(json.dumps({
    "replicas": hardware.replicas, "policy": model.dtype_policy.name, "spread": float(np.ptp(expected[:, 0])),
    "apart": float(np.abs(answers["probabilities"].numpy() - expected).max()),
    "unfused": float(np.abs(unfused.numpy() - op_by_op).max()), "fused": float(np.abs(expected - op_by_op).max()),
    "stored": len(stored), "weights": len(model.weights),
}))
"""


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_two_replicas(precision, tmp_path):
    """A graph fuses products and their biases, and so rounds once in bfloat16 where single operations round twice."""
    found = run_python(TRAIN_AND_EXPORT, precision, tmp_path / "model", timeout=900)
    assert found["replicas"] == 2 and found["spread"] > 1e-3, "all texts have one answer: nothing is compared"
    assert found["policy"] == precision
    assert found["apart"] <= 1e-5 and found["unfused"] <= 1e-5
    assert found["fused"] <= (1e-3 if precision == "mixed_bfloat16" else 1e-5)
    assert found["stored"] <= found["weights"] + 1  # each once, not once for each replica; save_counter
