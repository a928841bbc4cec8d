"""Exports in bfloat16: half the size, and the answers of float32 within its rounding."""

import json

import numpy as np
import pytest
import tensorflow as tf
from helpers.served_models import variable_bytes
from helpers.slow_but import slow_but
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.models.copies import in_precision
from kbert.serving.saved_model_file import SavedModelFile


@pytest.mark.parametrize("kind", slow_but(("single",), ("single", "fill_mask", "multiple_choice")))
def test_answers_in_bfloat16_are_close_to_those_in_float32(served_models, kind, tmp_path):
    served = served_models[kind]
    path = kbert.export(served.pipeline, tmp_path / "half", precision="bfloat16")
    plain, half = SavedModelFile(served.path), SavedModelFile(path)
    assert half.signatures == plain.signatures  # the same names, types and shapes
    assert 0.5 * variable_bytes(served.path) == variable_bytes(path)
    assert json.loads((path / "card.json").read_text("utf-8"))["precision"] == "bfloat16"
    columns = {name: tf.constant(values) for name, values in served.columns.items()}
    loaded = tf.saved_model.load(str(path))
    answers = [loaded.signatures["serving_default"](**columns), served.loaded["serving_default"](**columns)]
    close, exact = ({name: value.numpy() for name, value in answer.items()} for answer in answers)
    apart = np.max(np.abs(close["probabilities"] - exact["probabilities"]))
    assert 1e-6 < apart < 0.03
    assert close["probabilities"].dtype == np.float32
    assert served.pipeline.model.dtype_policy.name == "float32"  # the pipeline itself is not changed


def test_an_encoder_in_bfloat16_and_back():
    encoder = kbert.BertEncoder(tiny_config())
    half = in_precision(encoder, "bfloat16")
    assert {weight.dtype for weight in half.weights} == {"bfloat16"}
    for weight, exact in zip(in_precision(half, "float32").weights, encoder.weights, strict=True):
        assert weight.dtype == "float32"
        np.testing.assert_allclose(weight.numpy(), exact.numpy(), rtol=2**-8)


def test_what_cannot_be_converted():
    with pytest.raises(ValueError, match="must be one of .*Received: 'int8'"):
        in_precision(kbert.BertEncoder(tiny_config()), "int8")
    model = kbert.BertClassifier(tiny_config())
    model.quantize("int8")
    with pytest.raises(ValueError, match="a quantised model cannot be converted"):
        in_precision(model, "bfloat16")


@pytest.mark.slow  # an export without int8: serving/test_export.py
def test_a_quantised_pipeline_is_exported_as_it_is(tmp_path):
    model = randomise(kbert.BertClassifier(tiny_config(num_layers=1), num_labels=2), scale=0.2)
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["bad", "good"])
    texts = ["the film is good", "never bad"]
    plain = pipeline({"text": texts})["probabilities"].numpy()
    size = 4 * model.count_params()  # bytes of an export in float32
    pipeline.model.quantize("int8")
    path = kbert.export(pipeline, tmp_path / "int8")
    served = tf.saved_model.load(str(path)).signatures["serving_default"](text=tf.constant(texts))
    answers = pipeline.predict(texts, verbose=0)
    np.testing.assert_array_equal(served["probabilities"], answers["probabilities"])
    assert 1e-6 < np.abs(answers["probabilities"] - plain).max() < 0.05
    assert variable_bytes(path) < size
