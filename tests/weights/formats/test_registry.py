"""The registry of formats: the four there are, and a fifth that is one file and one line."""

import json
import sys

import numpy as np
import pytest
from helpers.run_python import assert_imports_none
from helpers.run_recipe import run_kbert
from helpers.slow_but import slow_but
from helpers.stored_models import assert_same_model, assert_same_weights, load, make_model, save

import kbert
from kbert.training.made_by import identify_inputs
from kbert.weights.formats import registry
from kbert.weights.formats.registry import format_names, get_format, recognise_format, register_format

OTHERS = ("kbert", "kerashub", "huggingface", "google")


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(registry, "_MODULES", dict(registry._MODULES))
    register_format("toy", "helpers.toy_format")


def test_unknown_and_taken_names(tmp_path):
    with pytest.raises(ValueError, match="`format` must be one of .*'google'.*Received: 'onnx'"):
        get_format("onnx")
    with pytest.raises(ValueError, match="name of a new format. Received: 'google', which is kbert.weights"):
        register_format("google", "helpers.toy_format")
    assert recognise_format(tmp_path) is None


@pytest.mark.parametrize(
    "name", slow_but(("encoder", "classification"), ("encoder", "classification", "span", "multiple_choice"))
)
def test_a_new_format_saves_and_loads(toy, name, tmp_path):
    model = make_model(name) if name == "encoder" else make_model("span with pooler" if name == "span" else name)
    save(model, tmp_path / "it", "toy")
    assert recognise_format(tmp_path / "it").name == "toy"
    loaded = load(tmp_path / "it")
    if name == "classification":
        assert loaded.num_labels == 3
        assert loaded.pretrained.settings.task.labels == ("label 0", "label 1", "label 2")
        assert_same_weights(loaded, model)
    else:
        assert_same_model(loaded, model)
    other = load(tmp_path / "it", task="tagging", num_labels=2)
    assert {row.variable.split("/")[0] for row in other.pretrained.report.newly_initialised} == {"tagger_head"}


def test_a_new_format_is_checked_like_the_others(toy, tmp_path):
    with pytest.raises(ValueError, match="cannot hold a tagging head: toys have no words"):
        save(make_model("tagging"), tmp_path / "it", "toy")
    with pytest.raises(ValueError, match='format="toy" cannot hold the variable masked_lm_head/output_bias'):
        save(make_model("masked_lm with pooler"), tmp_path / "it", "toy")
    with pytest.raises(ValueError, match='format="toy" cannot hold causal=True'):
        save(make_model("encoder", causal=True), tmp_path / "it", "toy")
    assert not (tmp_path / "it").exists()
    save(make_model("encoder"), tmp_path / "it", "toy")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        save(make_model("encoder"), tmp_path / "it", "toy")
    save(make_model("encoder"), tmp_path / "it", "toy", overwrite=True)
    content = json.loads((tmp_path / "it/toy.json").read_text())
    (tmp_path / "it/toy.json").write_text(json.dumps(content | {"belly": 10**9}))
    with pytest.raises(ValueError, match="toy.json: `belly` is 1000000000, but .*toy.npz has"):
        load(tmp_path / "it")
    (tmp_path / "notes").mkdir()
    with pytest.raises(ValueError, match=r"Expected a kbert directory .* or a toy \(toy.json, toy.npz\)"):
        load(tmp_path / "notes")


@pytest.mark.parametrize("other", slow_but(("huggingface",), OTHERS))
def test_a_new_format_is_converted_to_and_from_the_others(toy, other, tmp_path, capsys):
    if other == "kerashub":
        pytest.importorskip("keras_hub")
    model = make_model("encoder", activation="gelu_tanh", layer_norm_epsilon=1e-12)
    save(model, tmp_path / "first", other)
    run_kbert("convert", "--source", f"{tmp_path}/first", "--format", "toy", "--output", f"{tmp_path}/toy")
    report = tmp_path / "report.json"
    target = ("--format", other, "--output", tmp_path / "last", "--report", report)
    run_kbert("convert", "--source", tmp_path / "toy", *target)
    assert_same_weights(load(tmp_path / "last"), model)
    read = json.loads(report.read_text())["read"]
    assert read["parity"]["reason"] == "no other library computes from the format toy"
    assert {"variable": "encoder_block_0/attention/query/kernel", "source": "q0", "status": "loaded"} in read[
        "variables"
    ]
    with np.load(tmp_path / "toy/toy.npz") as arrays:
        assert arrays["q0"].shape == (12, 3, 4)


def test_a_run_identifies_the_files_of_a_new_format(toy, tmp_path):
    save(make_model("encoder"), tmp_path / "it", "toy")
    found = identify_inputs({"init": tmp_path / "it"})["init"]
    assert {path.rsplit("/", 1)[1] for path in found} == {"toy.json", "toy.npz", "words.txt", "kbert_settings.json"}


def test_the_names_are_known_without_keras():
    statements = "from kbert.weights.formats.registry import format_names; format_names()"
    assert_imports_none(statements, "tensorflow", "keras", "keras_hub", "numpy")
    assert set(OTHERS) <= set(format_names())


NOT_NEEDED = ("keras_hub", "keras_nlp", "kbert.weights.parity", "kbert.weights.formats.google_reference")


@pytest.mark.usefixtures("eagerly")
def test_nothing_imports_what_it_does_not_need(tmp_path, monkeypatch):
    """Importing these is an error meanwhile."""
    model = make_model("encoder", activation="gelu_tanh", layer_norm_epsilon=1e-12, num_layers=1)
    for name in NOT_NEEDED:
        monkeypatch.setitem(sys.modules, name, None)
    for format in ("kbert", "huggingface", "google"):
        save(model, tmp_path / format, format)
        pipeline = kbert.build_pipeline(load(tmp_path / format))
        pipeline.predict({"text": ["a"], "text_pair": ["b"]}, verbose=0)
