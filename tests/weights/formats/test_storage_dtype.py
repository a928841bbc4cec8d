"""Weights that take half the place on the disk: rounded once when they are saved, exact from then on."""

import json

import keras
import ml_dtypes
import numpy as np
import pytest
from helpers.stored_models import assert_same_weights, load, make_model, save, weights
from helpers.tiny_bert import TEXTS, randomise, tiny_config, tiny_tokenizer

import kbert

TYPES = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


@pytest.mark.parametrize(
    "name, dtype",
    [
        ("pretraining, untied", "bfloat16"),
        pytest.param("classification", "float16", marks=pytest.mark.slow),  # a model in float16: test_shipped_models.py
        pytest.param("pretraining, untied", "float16", marks=pytest.mark.slow),
        pytest.param("classification", "bfloat16", marks=pytest.mark.slow),
        *(pytest.param(n, d, marks=pytest.mark.slow) for n in ("encoder", "span with pooler") for d in TYPES),
    ],
)
def test_what_comes_back_is_what_was_rounded(name, dtype, tmp_path):
    model = make_model(name, hidden_dim=48, intermediate_dim=192)
    save(model, tmp_path / "whole", "huggingface")
    save(model, tmp_path / "half", "huggingface", storage_dtype=dtype)
    loaded = load(tmp_path / "half")
    for path, value in weights(model).items():
        found = weights(loaded)[path]
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, value.astype(TYPES[dtype]).astype(np.float32), err_msg=path)
    files = [(tmp_path / form / "model.safetensors").read_bytes() for form in ("whole", "half")]
    sizes = [len(file) - 8 - int.from_bytes(file[:8], "little") for file in files]  # without the headers
    assert sizes[0] - sizes[1] >= 2 * model.count_params()
    configs = [json.loads((tmp_path / form / "config.json").read_text()) for form in ("whole", "half")]
    assert [config["kbert"]["storage_dtype"] for config in configs] == ["float32", dtype]
    assert [config["dtype"] for config in configs] == ["float32", "float32"]  # what transformers computes in
    assert not loaded.pretrained.report.newly_initialised and not loaded.pretrained.report.unused
    save(loaded, tmp_path / "again", "huggingface", storage_dtype=dtype)  # rounded numbers stay as they are
    assert_same_weights(load(tmp_path / "again"), loaded)


def test_another_task_takes_the_encoder(tmp_path):
    model = make_model("pretraining")
    save(model, tmp_path / "half", "huggingface", storage_dtype="bfloat16")
    loaded, whole = load(tmp_path / "half", task="classification", num_labels=2), weights(model)
    for path, value in weights(loaded.encoder).items():
        np.testing.assert_array_equal(value, whole[path].astype(ml_dtypes.bfloat16).astype(np.float32))
    assert load(tmp_path / "half", dtype="mixed_bfloat16").dtype_policy.name == "mixed_bfloat16"


@pytest.mark.usefixtures("eagerly")
def test_a_pipeline(tmp_path):
    model = randomise(kbert.BertClassifier(tiny_config(), num_labels=2))
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), sequence_length=9)
    kbert.save_pretrained(pipeline, tmp_path / "it", storage_dtype="bfloat16")
    found = kbert.build_pipeline(load(tmp_path / "it")).predict(TEXTS, verbose=0)
    np.testing.assert_allclose(found["probabilities"], pipeline.predict(TEXTS, verbose=0)["probabilities"], atol=0.02)


def test_what_is_refused(tmp_path):
    model = make_model("encoder")
    with pytest.raises(ValueError, match=r"`storage_dtype` must be one of \('float32', .*Received: 'int4'"):
        save(model, tmp_path / "it", "huggingface", storage_dtype="int4")
    with pytest.raises(ValueError, match="only format=\"huggingface\" takes a `storage_dtype`. Received: 'google'"):
        save(model, tmp_path / "it", "google", storage_dtype="bfloat16")
    large = randomise(kbert.BertEncoder(tiny_config()))
    large.encoder.blocks[0].weights[0].assign(keras.ops.full(large.encoder.blocks[0].weights[0].shape, 70_000.0))
    with pytest.raises(ValueError, match="7e.04 is beyond the range of float16. Use bfloat16"):
        save(large, tmp_path / "it", "huggingface", storage_dtype="float16")
    assert not list(tmp_path.iterdir())


def test_a_quantised_model_keeps_its_int8_kernels(tmp_path):
    model = randomise(kbert.BertEncoder(tiny_config()))
    model.quantize("int8")
    save(model, tmp_path / "it", "huggingface", storage_dtype="float16")
    for one, other in zip(load(tmp_path / "it").weights, model.weights, strict=True):
        assert (one.path, one.dtype) == (other.path, other.dtype)
        tolerance = 0 if one.dtype == "int8" else 1e-3
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=tolerance, atol=0, err_msg=one.path)
