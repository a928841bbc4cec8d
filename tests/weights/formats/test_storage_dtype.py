"""Weights that take half the place on the disk: rounded once when they are saved, exact from then on."""

import json

import keras
import ml_dtypes
import numpy as np
import pytest
from helpers.stored_models import assert_same_weights, load, make_model, save, weights
from helpers.tiny_bert import tiny_config
from helpers.wrong_values import wrong_inputs

import kbert

TYPES = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


@pytest.mark.parametrize(
    "name,dtype",
    [
        ("pretraining, untied", "bfloat16"),
        ("classification", "float16"),
        pytest.param("pretraining, untied", "float16", marks=pytest.mark.slow),
        pytest.param("span with pooler", "bfloat16", marks=pytest.mark.slow),
    ],
)
def test_what_comes_back_is_what_was_rounded(name, dtype, tmp_path):
    model = make_model(name, num_layers=1, hidden_dim=48, intermediate_dim=192)
    save(model, tmp_path / "whole", "kbert")
    save(model, tmp_path / "half", "kbert", storage_dtype=dtype)
    loaded = load(tmp_path / "half")
    for path, value in weights(model).items():
        found = weights(loaded)[path]
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, value.astype(TYPES[dtype]).astype(np.float32), err_msg=path)
    sizes = [(tmp_path / form / "model.weights.h5").stat().st_size for form in ("whole", "half")]
    assert sizes[0] - sizes[1] >= 1.9 * model.count_params()  # bytes; blocks are filled up
    manifests = [json.loads((tmp_path / form / "manifest.json").read_text()) for form in ("whole", "half")]
    assert [manifest["storage_dtype"] for manifest in manifests] == ["float32", dtype]
    assert not loaded.pretrained.report.newly_initialised and not loaded.pretrained.report.unused
    save(loaded, tmp_path / "again", "kbert", storage_dtype=dtype)  # rounded numbers stay as they are
    other = type(model).from_config(model.get_config())
    other.load_weights(tmp_path / "again/model.weights.h5")  # by Keras alone
    assert_same_weights(other, loaded)


def test_what_is_refused(tmp_path):
    model = make_model("encoder", num_layers=1)
    quantised, large = (kbert.BertEncoder(tiny_config(num_layers=1)) for _ in range(2))
    quantised.quantize("int8")
    large.weights[0].assign(keras.ops.full(large.weights[0].shape, 70_000.0))
    wrong_inputs(
        lambda wrong: save(wrong[0], tmp_path / "it", wrong[1], storage_dtype=wrong[2]),
        ((model, "kbert", "int4"), r"`storage_dtype` must be one of \('float32', .*Received: 'int4'"),
        ((model, "google", "bfloat16"), r"format='google' takes no `storage_dtype`. Only \['kbert'\] take it"),
        ((quantised, "kbert", "bfloat16"), "must be float32 for a quantised model"),
        ((large, "kbert", "float16"), 'numbers that float16 can hold. Received: one of 7e.04. Take "bfloat16"'),
    )
    with pytest.raises(ValueError, match="takes no `compression`. Known: .*storage_dtype"):
        save(model, tmp_path / "it", "kbert", compression="gzip")
    assert not list(tmp_path.iterdir())
