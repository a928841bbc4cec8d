"""The formats of checkpoints, which are imported when they are needed."""

import sys

import pytest
from helpers.run_python import assert_imports_none
from helpers.stored_models import load, make_model, save

import kbert
from kbert.weights.formats.registry import FORMATS, get_format, recognize_format


def test_an_unknown_format(tmp_path):
    with pytest.raises(ValueError, match="^save_pretrained: `format` must be one of .*'google'.*Received: 'onnx'"):
        save(make_model("encoder"), tmp_path / "it", "onnx")
    assert recognize_format(tmp_path) is None


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_the_same_parts(name):
    form = get_format(name)
    assert form.NAMES.format == name and form.TITLE and form.FILES
    assert callable(form.recognizes) and callable(form.read) and callable(form.write)


def test_the_names_are_known_without_keras():
    statements = "from kbert.weights.formats.registry import FORMATS"
    assert_imports_none(statements, "tensorflow", "keras", "keras_hub", "numpy")


@pytest.mark.usefixtures("eagerly")
def test_nothing_imports_what_it_does_not_need(tmp_path, monkeypatch):
    """Importing these is an error meanwhile."""
    model = make_model("encoder", activation="gelu_tanh", layer_norm_epsilon=1e-12, num_layers=1)
    for name in ("keras_hub", "keras_nlp", "torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    for format in ("huggingface", "google"):
        save(model, tmp_path / format, format)
        pipeline = kbert.build_pipeline(load(tmp_path / format))
        pipeline.predict({"text": ["a"], "text_pair": ["b"]}, verbose=0)
