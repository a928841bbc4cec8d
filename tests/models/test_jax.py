"""The model side on Keras' JAX backend, in a process where importing TensorFlow is an error."""

import keras
import numpy as np
import pytest
from helpers.batches import config, plain_batch, pretraining_batch
from helpers.run_python import BLOCK_TENSORFLOW, run_python

from kbert.models.classifier import BertClassifier

PROGRAM = (
    BLOCK_TENSORFLOW
    + """
import json, sys
import keras
import numpy as np
import kbert.config
from helpers.batches import config, labels_of, packed_batch, plain_batch, pretraining_batch
from kbert.layers.encoder_block import EncoderBlock
from kbert.models.check_inputs import complete_inputs
from kbert.models.classifier import BertClassifier
from kbert.models.encoder import BertEncoder
from kbert.models.pretrainer import BertPretrainer
from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay

keras.utils.set_random_seed(3)
fields = {"hidden_dropout": 0.1, "attention_dropout": 0.1}
model = BertPretrainer(config(**fields))
model.compile(AdamW(WarmupLinearDecay(0.01, 4, 60)))
batch = pretraining_batch()
labels = {"mlm_logits": labels_of(batch["mask_positions"].shape, 37), "nsp_logits": labels_of(5, 2)}
weights = {"mlm_logits": np.ones(batch["mask_positions"].shape, "float32"), "nsp_logits": np.ones(5, "float32")}
history = model.fit(batch, labels, sample_weight=weights, epochs=40, batch_size=5, verbose=0).history["loss"]
packed = BertEncoder(config(causal=True), num_parts=3, outputs=("pooled_output", "hidden_states"))
shapes = [list(x.shape) for x in keras.tree.flatten(packed.predict(packed_batch(), verbose=0))]
try:
    model(dict(batch, **{k: np.tile(batch[k], (1, 2)) for k in ("token_ids", "segment_ids", "padding_mask")}))
    refused = ""
except ValueError as error:
    refused = str(error)
result = {"history": history, "shapes": shapes, "refused": refused}

model = BertClassifier(config(), num_labels=3)
losses = {"logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
model.compile(keras.optimizers.Adam(0.01), losses)
model.fit(plain_batch(), {"logits": labels_of(5, 3)}, epochs=3, verbose=0)
model.save(sys.argv[1] + "/model.keras")
model.save_weights(sys.argv[1] + "/model.weights.h5")
result["logits"] = model.predict(plain_batch(), verbose=0)["logits"].tolist()
bare = plain_batch()["token_ids"]
result["bare"] = [model.predict(x, verbose=0)["logits"].tolist() for x in (bare, complete_inputs(model, bare))]

outside = keras.ops.convert_to_tensor(bare).at[0, 1].set(-1)
try:
    model.predict(np.asarray(outside))
    result["outside"] = []
except ValueError as error:
    result["outside"] = [str(error), np.isnan(model(outside)["logits"]).tolist()]

def logits(model):
    return np.asarray(model(plain_batch())["logits"])

model = BertClassifier(config(num_layers=1), num_labels=3)
first = logits(model)
model.enable_lora(2)
start = logits(model)
model.compile(keras.optimizers.Adam(0.05))
history = model.fit(plain_batch(), labels_of((5,), 3), epochs=10, verbose=0).history["loss"]
expected = logits(model)
model.save(sys.argv[1] + "/lora.keras")
again = logits(keras.models.load_model(sys.argv[1] + "/lora.keras"))
model.merge_lora()
changes = {"start": first - start, "again": again - expected, "merged": logits(model) - expected}
result["lora"] = {name: float(np.abs(change).max()) for name, change in changes.items()} | {"history": history}
model.compile()
model.quantize("int8")
try:
    model.fit(plain_batch(), labels_of((5,), 3), verbose=0)
except ValueError as error:
    result["quantised"] = str(error)
result |= {"backend": keras.backend.backend(),
           "tensorflow": [name for name in sys.modules if name.split(".")[0] == "tensorflow"]}
print(json.dumps(result))
"""
)


@pytest.fixture(scope="module")
def on_jax(tmp_path_factory):
    """What the program found, and where it saved models."""
    pytest.importorskip("jax")
    path = tmp_path_factory.mktemp("jax")
    return run_python(PROGRAM, path, backend="jax"), path


@pytest.mark.parity
def test_trains_without_tensorflow(on_jax):
    result, _ = on_jax
    assert result["backend"] == "jax" and not result["tensorflow"]
    first, last = result["history"][0], np.mean(result["history"][-3:])
    assert np.all(np.isfinite(result["history"])) and last < 0.7 * first
    assert sorted(result["shapes"]) == [[5, 3, 12], [5, 7, 12], [5, 7, 12], [5, 7, 12]]
    assert "position table" in result["refused"]
    np.testing.assert_allclose(*result["bare"], atol=1e-6)
    message, is_nan = result["outside"]  # an array, a tensor
    assert "Received: -1 in row 0, position 1" in message and np.all(is_nan[0]) and not np.any(is_nan[1:])
    assert "training needs float weights" in result["quantised"]


@pytest.mark.parity
def test_weights_trained_on_jax_work_on_tensorflow(on_jax):
    expected, path = on_jax[0]["logits"], on_jax[1]
    loaded = keras.models.load_model(path / "model.keras")
    np.testing.assert_allclose(loaded(plain_batch())["logits"], expected, atol=1e-6)
    model = BertClassifier(config(), num_labels=3)
    model.load_weights(path / "model.weights.h5")
    np.testing.assert_allclose(model(plain_batch())["logits"], expected, atol=1e-6)


@pytest.mark.parity
def test_lora(on_jax):
    found = on_jax[0]["lora"]
    assert found["start"] == 0.0 and found["again"] < 1e-6 and found["merged"] < 1e-5
    assert found["history"][-1] < 0.9 * found["history"][0]


def test_the_batch_of_these_tests_is_a_pretraining_batch():
    assert set(pretraining_batch()) == {"token_ids", "segment_ids", "padding_mask", "mask_positions"}


ON_TORCH = """
import json
import keras
import torch
from helpers.batches import config, labels_of, plain_batch
from kbert.models.classifier import BertClassifier

keras.utils.set_random_seed(3)
model = BertClassifier(config(), num_labels=3)
model.compile(keras.optimizers.Adam(0.01))
history = model.fit(plain_batch(), labels_of((5,), 3), epochs=20, verbose=0).history["loss"]
logits = model.predict(plain_batch(), verbose=0)["logits"]
refused = []
for outside in (-1, 37):
    try:
        model(torch.tensor([[3, outside]]))
    except IndexError as error:
        refused.append(str(error))
found = {"backend": keras.backend.backend(), "history": history, "shape": list(logits.shape), "refused": len(refused)}
print(json.dumps(found))
"""


@pytest.mark.slow  # a further backend: test_trains_without_tensorflow
@pytest.mark.parity
def test_a_task_model_trains_on_torch():
    pytest.importorskip("torch")
    result = run_python(ON_TORCH, backend="torch")
    assert result["backend"] == "torch" and result["shape"] == [5, 3] and result["refused"] == 2
    assert result["history"][-1] < 0.9 * result["history"][0]
