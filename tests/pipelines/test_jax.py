"""From JAX to serving: a model trained there is saved, loaded under TensorFlow, exported; tokenizers work as ever,
pipelines refuse at once."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.run_python import run_python
from helpers.tiny_bert import tiny_config, tiny_tokenizer
from helpers.tiny_directory import VOCABULARY, write_tiny_directory

import kbert

SCRIPT = """
import json, sys
import keras, numpy as np, tensorflow as tf
import kbert

path = sys.argv[1]
model = kbert.load_pretrained(path + "/init", "classification", num_labels=2, labels=["bad", "good"], sequence_length=9)
tokenizer = model.pretrained.tokenizer
texts = tf.data.Dataset.from_tensor_slices(["good .", "\u00e4"]).batch(2)
ids = [next(iter(texts.map(function))).to_list() for function in (tokenizer.call, tokenizer)]
ids.append(tokenizer(["good"]).to_list())
rng = np.random.default_rng(0)
batch = {
    "token_ids": rng.integers(5, 12, (8, 9)).astype("int32"), "segment_ids": np.zeros((8, 9), "int32"),
    "padding_mask": np.ones((8, 9), bool),
}
before = [w.copy() for w in model.get_weights()]
model.compile(kbert.AdamW(0.01))
model.fit(batch, {"logits": np.arange(8) % 2}, epochs=2, verbose=0)
try:
    kbert.build_pipeline(model)
    refused = ""
except RuntimeError as error:
    refused = str(error)
moved = max(float(np.abs(a - b).max()) for a, b in zip(before, model.get_weights()))
logits = np.asarray(model.predict(batch, verbose=0)["logits"])
kbert.save_pretrained(model, path + "/trained", tokenizer=tokenizer)
print(json.dumps({
    "backend": keras.backend.backend(), "refused": refused, "moved": moved, "logits": logits.tolist(), "ids": ids,
    "batch": {name: value.tolist() for name, value in batch.items()},
}))
"""


def test_a_pipeline_is_refused_at_once(monkeypatch):
    """By name alone: on JAX itself in the test below."""
    model = kbert.BertClassifier(tiny_config(num_layers=1))
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(RuntimeError, match=r"Received: backend 'jax'.*kbert\.save_pretrained"):
        kbert.build_pipeline(model, tiny_tokenizer())


@pytest.mark.slow  # models/test_jax.py trains on JAX and loads under TensorFlow; the refusal: above
@pytest.mark.parity
def test_trained_on_jax_saved_loaded_and_exported(tmp_path):
    pytest.importorskip("jax")
    write_tiny_directory(tmp_path / "init", dropout=0.0)
    result = run_python(SCRIPT, tmp_path, backend="jax")
    assert result["backend"] == "jax" and result["moved"] > 0
    words = VOCABULARY.index("good"), VOCABULARY.index("."), VOCABULARY.index("a")
    both = [list(words[:2]), [words[2]]]  # in tf.data as a function and as a layer, and with lists of strings
    assert result["ids"] == [both, both, [[words[0]]]]
    assert "Received: backend 'jax'" in result["refused"] and "kbert.save_pretrained" in result["refused"]
    model = kbert.load_pretrained(tmp_path / "trained")
    batch = {name: np.array(value) for name, value in result["batch"].items()}
    np.testing.assert_allclose(model(batch)["logits"], result["logits"], atol=1e-5)
    pipeline = kbert.build_pipeline(model)
    texts = ["good one", "bad"]
    exported = kbert.export(pipeline, tmp_path / "served")
    served = tf.saved_model.load(str(exported)).signatures["serving_default"](text=tf.constant(texts))
    expected = pipeline.predict({"text": texts}, verbose=0)
    np.testing.assert_allclose(served["probabilities"], expected["probabilities"], atol=1e-6)
