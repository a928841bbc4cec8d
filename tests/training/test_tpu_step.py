"""The training step of --strategy tpu as XLA sees it, compiled as a whole on the CPU. (There was no TPU to run it on.)

Under `TPUStrategy` each core runs `model.train_step` on its fraction of a batch, compiled as a whole: static shapes,
bfloat16, no operation that only a host has.
"""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from training_speed import synthetic_batch

from kbert import xla
from kbert.config import BertConfig
from kbert.models.pretrainer import BertPretrainer
from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay
from kbert.training.hardware import Hardware

NOT_ON_A_TPU = re.compile(r"\b(?:infeed|outfeed|send|recv|custom-call)\(")


@pytest.fixture
def tpu(monkeypatch):
    """What `choose_hardware("tpu")` decides, without the TPU; and no groups of operations compiled by themselves."""
    monkeypatch.setattr(xla, "_has_xla", lambda: False)
    keras.config.set_dtype_policy("mixed_bfloat16")
    yield Hardware(tf.distribute.get_strategy(), "tpu", 1, "mixed_bfloat16", False, ())
    keras.config.set_dtype_policy("float32")


def check_step(hardware, config, batch_size, sequence_length, max_predictions):
    with hardware.scope():
        model = BertPretrainer(config)
        model.compile(AdamW(WarmupLinearDecay(1e-3, 2, 100)), jit_compile=hardware.jit_compile)
    sizes = batch_size, sequence_length, max_predictions
    batch = tf.nest.map_structure(tf.constant, synthetic_batch(config, *sizes))
    model.optimizer.build(model.trainable_variables)
    model.train_step(batch)  # eagerly: variables of metrics, and a learning rate above 0 for the next step
    step = tf.function(model.train_step, jit_compile=True, autograph=False)
    program = step.experimental_get_compiler_ir(batch)(stage="hlo")
    assert "bf16[" in program and "<=" not in re.sub(r"metadata=\{.*?\}", "", program)  # f32[<=8] has a dynamic size
    assert not NOT_ON_A_TPU.search(program)
    before = [weight.copy() for weight in model.get_weights()]
    model.reset_metrics()
    logs = step(batch)
    assert np.isfinite(float(logs["loss"]))
    np.testing.assert_allclose(float(logs["mlm_logits_cross_entropy"]), np.log(config.vocabulary_size), rtol=0.1)
    assert model.optimizer.iterations.numpy() == 2
    moved = [np.any(one != other) for one, other in zip(before, model.get_weights(), strict=True)]
    assert np.mean(moved) > 0.9


@pytest.mark.slow  # under XLA: models/test_compile.py
def test_a_tiny_step(tpu):
    sizes = {"num_layers": 1, "hidden_dim": 16, "num_heads": 2, "intermediate_dim": 20, "max_sequence_length": 9}
    check_step(tpu, BertConfig(vocabulary_size=37, **sizes), 6, 9, 2)


@pytest.mark.slow
def test_a_step_of_base(tpu):
    check_step(tpu, BertConfig.from_size("base"), 8, 128, 20)
