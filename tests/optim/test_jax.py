"""The same optimizer and losses on Keras' JAX backend, in a process of its own."""

import numpy as np
import pytest
from helpers.run_python import run_python

SCRIPT = """
import json
import jax, numpy as np, keras
from helpers.numpy_adamw import NumpyAdamW, clip_by_global_norm, learning_rate
from kbert.optim.adamw import AdamW
from kbert.optim.losses import MaskedLanguageModelLoss, NextSentenceLoss
from kbert.optim.metrics import CrossEntropy, Perplexity, WeightedAccuracy
from kbert.optim.schedule import WarmupLinearDecay
from kbert.training.logs import updates_done

rng = np.random.default_rng(3)
variables = [keras.Variable(rng.normal(size=shape).astype("float32"), name=name)
             for name, shape in (("kernel", (5, 3)), ("bias", (3,)), ("table", (70000, 1)))]
optimizer = AdamW(WarmupLinearDecay(0.01, 7, 60))
optimizer.build(variables)
reference = NumpyAdamW({v.name: v.numpy() for v in variables})
weights, state = [v.value for v in variables], [v.value for v in optimizer.variables]
apply = jax.jit(optimizer.stateless_apply)
for step in range(50):
    gradients = [(10.0 ** rng.uniform(-3, 1) * rng.normal(size=v.shape)).astype("float32") for v in variables]
    weights, state = apply(state, gradients, weights)
    clipped, norm = clip_by_global_norm([g.astype("float64") for g in gradients], 1.0)
    reference.apply(clipped, learning_rate(step, 0.01, 7, 60))
pairs = list(zip(weights, reference.weights.values()))
error = max(float(np.max(np.abs(np.asarray(w) - r) / np.maximum(1, np.abs(r)))) for w, r in pairs)

scopes = ("embeddings", "encoder_block_0", "pooler")
layers = []
for scope in scopes:
    with keras.name_scope(scope):
        layers.append(keras.Variable(np.ones(3, "float32"), name="bias"))
optimizer = AdamW(0.01, layer_decay=0.5)
optimizer.build(layers)
state = [v.value for v in optimizer.variables]
moved, _ = optimizer.stateless_apply(state, [np.ones(3, "float32")] * 3, [v.value for v in layers])
moved = [float(1 - w[0]) for w in moved]

x = np.linspace(-1, 1, 12).reshape(3, 4).astype("float32")
labels = {"mlm_logits": np.array([[1, 4], [0, 2], [3, 3]]), "nsp_logits": np.array([0, 1, 1])}
weight = {"mlm_logits": np.array([[1, 1], [1, 0], [0, 0]], "float32"), "nsp_logits": np.ones(3, "float32")}
inputs = keras.Input((4,))
tokens = keras.layers.Reshape((2, 5))(keras.layers.Dense(10, name="tokens")(inputs))
model = keras.Model(inputs, {"mlm_logits": tokens, "nsp_logits": keras.layers.Dense(2, name="pair")(inputs)})
losses = {"mlm_logits": MaskedLanguageModelLoss(), "nsp_logits": NextSentenceLoss()}
metrics = {"mlm_logits": [CrossEntropy(), Perplexity(), WeightedAccuracy()], "nsp_logits": [WeightedAccuracy()]}
model.compile(AdamW(0.1), losses, weighted_metrics=metrics)
logits = {name: value.tolist() for name, value in model.predict(x, verbose=0).items()}
first = model.fit(x, labels, sample_weight=weight, batch_size=3, verbose=0).history
last = model.fit(x, labels, sample_weight=weight, batch_size=3, epochs=30, verbose=0).history
accumulating = AdamW(0.1, gradient_accumulation_steps=2)
accumulating.build(layers)
updates = updates_done(accumulating)
print(json.dumps({"backend": keras.backend.backend(), "error": error, "logits": logits, "moved": moved,
                  "updates": updates, "first": {k: v[0] for k, v in first.items()},
                  "last": {k: v[-1] for k, v in last.items()}}))
"""


@pytest.mark.parity
def test_on_jax():
    pytest.importorskip("jax")
    result = run_python(SCRIPT, backend="jax")
    assert result["backend"] == "jax"
    assert result["error"] < 2e-6 and result["updates"] == 0
    np.testing.assert_allclose(np.divide(result["moved"], result["moved"][2]), [0.25, 0.5, 1.0], rtol=1e-5)
    logits = np.array(result["logits"]["mlm_logits"])
    kept = logits[[0, 0, 1], [0, 1, 0]]
    nll = np.log(np.exp(kept).sum(-1)) - kept[[0, 1, 2], [1, 4, 0]]
    np.testing.assert_allclose(result["first"]["mlm_logits_loss"], nll.sum() / (3 + 1e-5), rtol=1e-5)
    np.testing.assert_allclose(result["first"]["mlm_logits_perplexity"], np.exp(nll.mean()), rtol=1e-5)
    assert result["last"]["loss"] < 0.5 * result["first"]["loss"]
    assert result["last"]["mlm_logits_accuracy"] == 1.0
