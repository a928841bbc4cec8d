"""The model side on Keras' JAX backend, in a process where importing TensorFlow is an error."""

import keras
import numpy as np
import pytest
from helpers.batches import config, plain_batch, pretraining_batch
from helpers.run_python import BLOCK_TENSORFLOW, run_python

from kbert.models.classifier import BertClassifier

TRAIN = (
    BLOCK_TENSORFLOW
    + """
import json
import keras
import numpy as np
import kbert.config
from helpers.batches import config, labels_of, packed_batch, pretraining_batch
from kbert.layers.encoder_block import EncoderBlock
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
import sys
print(json.dumps({"backend": keras.backend.backend(), "history": history, "shapes": shapes, "refused": refused,
                  "tensorflow": [name for name in sys.modules if name.split(".")[0] == "tensorflow"]}))
"""
)

SAVE = (
    BLOCK_TENSORFLOW
    + """
import json, sys
import keras
from helpers.batches import config, labels_of, plain_batch
from kbert.models.classifier import BertClassifier

model = BertClassifier(config(), num_labels=3)
losses = {"logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
model.compile(keras.optimizers.Adam(0.01), losses)
model.fit(plain_batch(), {"logits": labels_of(5, 3)}, epochs=3, verbose=0)
model.save(sys.argv[1] + "/model.keras")
model.save_weights(sys.argv[1] + "/model.weights.h5")
print(json.dumps({"logits": model.predict(plain_batch(), verbose=0)["logits"].tolist()}))
"""
)


@pytest.mark.parity
def test_trains_without_tensorflow():
    pytest.importorskip("jax")
    result = run_python(TRAIN, backend="jax")
    assert result["backend"] == "jax" and not result["tensorflow"]
    first, last = result["history"][0], np.mean(result["history"][-3:])
    assert np.all(np.isfinite(result["history"])) and last < 0.7 * first
    assert sorted(result["shapes"]) == [[5, 3, 12], [5, 7, 12], [5, 7, 12], [5, 7, 12]]
    assert "position table" in result["refused"]


@pytest.mark.parity
def test_weights_trained_on_jax_work_on_tensorflow(tmp_path):
    pytest.importorskip("jax")
    expected = run_python(SAVE, tmp_path, backend="jax")["logits"]
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(plain_batch())["logits"], expected, atol=1e-6)
    model = BertClassifier(config(), num_labels=3)
    model.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(model(plain_batch())["logits"], expected, atol=1e-6)


def test_the_batch_of_these_tests_is_a_pretraining_batch():
    assert set(pretraining_batch()) == {"token_ids", "segment_ids", "padding_mask", "mask_positions"}
