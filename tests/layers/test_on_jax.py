"""What the layers do differently on JAX, and the benchmark there, in processes without TensorFlow."""

import numpy as np
import pytest
from helpers.paths import ROOT
from helpers.run_python import BLOCK_TENSORFLOW, run_python

SCRIPT = (
    BLOCK_TENSORFLOW
    + """
import json
import jax, keras
import numpy as np
from keras import ops
from kbert.layers import replica_dropout, self_attention
from kbert.layers.self_attention import can_fuse_attention, fused_attention
from kbert.layers.replica_dropout import ReplicaDropout
from kbert.layers.self_attention import SelfAttention

result = {"fuses": [can_fuse_attention("bfloat16"), jax.default_backend()]}

x = np.ones((100, 1000), "float32")
masks = []
for seed in (1, 1, 2):
    layer = ReplicaDropout(0.25, seed=seed)
    masks.append([np.asarray(layer(x, training=True)) for _ in range(2)])
result["dropout"] = {
    "values": sorted({float(value) for mask in masks for value in np.unique(mask[0])}),
    "fraction": [float(np.mean(mask[0] == 0)) for mask in masks],
    "repeated": bool(np.array_equal(masks[0], masks[1])),
    "agreement": [float(np.mean((masks[0][0] == 0) == (other == 0))) for other in (masks[0][1], masks[2][0])],
    "untouched": bool(np.array_equal(ReplicaDropout(0.25)(x), x)),
    "compiled": str(jax.make_jaxpr(lambda seed: replica_dropout._jax_dropout(x, 0.25, seed))(np.zeros(2, "uint32"))),
}

bias = np.where(np.arange(7) < np.array([[7], [4]]), 0.0, -10000.0)[:, None, None].astype("float32")
inputs = np.random.default_rng(0).normal(size=(2, 7, 24)).astype("float32")
result["attention"] = {}
for policy in ("float32", "mixed_bfloat16"):
    for rate in (0.0, 0.1):
        layer = SelfAttention(3, attention_dropout=rate, dtype=policy)
        layer.build(inputs.shape)
        weights = [v.value for v in layer.trainable_variables]
        others = [v.value for v in layer.non_trainable_variables]
        calls = []

        def counted(*arguments):
            calls.append(1)
            return fused_attention(*arguments)

        def output(weights, is_fused, training):
            self_attention.can_fuse_attention, self_attention.fused_attention = lambda dtype: is_fused, counted
            return layer.stateless_call(weights, others, inputs, bias, training=training)[0]

        def total(weights, is_fused):
            rows = ops.cast(output(weights, is_fused, rate == 0.0), "float32")[:, :4]
            return ops.sum(rows * np.random.default_rng(1).normal(size=rows.shape))

        plain, fused = (np.asarray(output(weights, f, False), "float32")[:, :4] for f in (False, True))
        gradients = [jax.grad(total)(weights, f) for f in (False, True)]
        largest = max(float(np.max(np.abs(a))) for a in gradients[0])
        before = len(calls)
        output(weights, True, True)
        result["attention"][f"{policy} {rate}"] = {
            "values": float(np.max(np.abs(plain - fused))),
            "gradients": max(float(np.max(np.abs(a - b))) for a, b in zip(*gradients)) / largest,
            "fused_calls": before,
            "fused_in_training": len(calls) > before,
        }

from kbert.config import BertConfig
from kbert.models.encoder import BertEncoder

config = BertConfig(vocabulary_size=37, num_layers=1, hidden_dim=24, num_heads=3, intermediate_dim=20,
                    max_sequence_length=9, hidden_dropout=0.0, attention_dropout=0.0, causal=True,
                    pooled_token="last", position_embedding="sinusoidal")
ids = np.random.default_rng(2).integers(0, 37, (3, 6))
batch = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids >= 0}
changed = dict(batch, token_ids=np.concatenate([ids[:, :4], (ids[:, 4:] + 1) % 37], 1))
result["left_to_right"] = {}
for is_fused in (False, True):
    self_attention.can_fuse_attention, self_attention.fused_attention = lambda dtype: is_fused, fused_attention
    encoder = BertEncoder(config)
    before, after = (encoder(one) for one in (batch, changed))
    states = [np.asarray(one["sequence_output"]) for one in (before, after)]
    pooled = [np.asarray(one["pooled_output"]) for one in (before, after)]
    result["left_to_right"][str(is_fused)] = [
        bool(np.array_equal(states[0][:, :4], states[1][:, :4])),
        bool(np.any(states[0][:, 4:] != states[1][:, 4:], axis=-1).all() and np.any(pooled[0] != pooled[1])),
    ]
print(json.dumps(result))
"""
)
BENCHMARK = (
    BLOCK_TENSORFLOW
    + """
import json
sys.path.insert(0, sys.argv[1] + "/recipes/benchmarks")
import training_speed
from kbert.config import BertConfig
config = BertConfig.from_size("tiny", hidden_dropout=0.0, attention_dropout=0.0)
times = [*training_speed.kbert_steps(config, 2, 24, "float32")(), *training_speed.square_products("float32")()]
tensorflow = [name for name in sys.modules if name.split(".")[0] == "tensorflow"]
print(json.dumps({"times": times, "tensorflow": tensorflow}))
"""
)


@pytest.fixture(scope="module")
def result():
    pytest.importorskip("jax")
    return run_python(SCRIPT, backend="jax")


@pytest.mark.parity
def test_dropout(result):
    dropout = result["dropout"]
    np.testing.assert_allclose(dropout["values"], [0.0, 4 / 3], rtol=1e-6)
    np.testing.assert_allclose(dropout["fraction"], 0.25, atol=0.01)
    assert dropout["repeated"] and dropout["untouched"]
    np.testing.assert_allclose(dropout["agreement"], 0.75**2 + 0.25**2, atol=0.01)  # that of independent masks
    assert "key<rbg>" in dropout["compiled"] and "fry" not in dropout["compiled"]


@pytest.mark.parity
def test_fused_attention_is_attention(result):
    """JAX's own operations stand in for cuDNN's kernel here."""
    assert result["fuses"] == [result["fuses"][1] in ("gpu", "cuda"), result["fuses"][1]]
    for name, found in result["attention"].items():
        tolerance = 1e-5 if name.startswith("float32") else 0.02
        assert found["values"] < tolerance and found["gradients"] < 2 * tolerance, (name, found)
        assert found["fused_in_training"] == name.endswith(" 0.0") and found["fused_calls"] in (1, 2)


@pytest.mark.parity
def test_left_to_right_models(result):
    assert result["left_to_right"] == {"False": [True, True], "True": [True, True]}  # earlier: equal; later: other


@pytest.mark.slow  # the script: tests/recipes/test_benchmarks.py; JAX: test_two_jax_devices_train_as_tensorflow_does
@pytest.mark.parity
def test_the_benchmark_needs_no_tensorflow():
    pytest.importorskip("jax")
    found = run_python(BENCHMARK, ROOT, backend="jax")
    assert not found["tensorflow"]
    assert all(seconds > 0 for seconds, _ in found["times"])
