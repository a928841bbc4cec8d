"""Weights are moved one tensor at a time, and come through every format in turn without a bit changed."""

import dataclasses
import tracemalloc
import types
import weakref

import numpy as np
import pytest
from helpers.slow_but import slow_but
from helpers.stored_models import assert_same_weights, load, make_model, save
from helpers.tiny_bert import randomise, tiny_config

import kbert
from kbert.weights.formats.export_tensors import export_tensors
from kbert.weights.formats.google import NAMES
from kbert.weights.source import open_checkpoint

SIZES = dict(num_layers=6, hidden_dim=48, intermediate_dim=192)  # 700 kB, the largest tensor 37 kB


@pytest.fixture(scope="module")
def larger(tmp_path_factory):
    """A model whose largest tensor is a small part of it, in every format."""
    model, path = make_model("encoder", **SIZES), tmp_path_factory.mktemp("larger")
    for format in ("huggingface", "google"):
        save(model, path / format, format)
    return path


class Watched:
    """A file of tensors that counts how many of those it gave out are still held when the next is asked for."""

    def __init__(self, file):
        self.path, self.tensors, self._file = file.path, file.tensors, file
        self._given, self.held = [], []

    def read(self, name):
        self.held.append(sum(reference() is not None for reference in self._given))
        values = self._file.read(name)
        self._given.append(weakref.ref(values))
        return values


class Sink:
    """A variable that keeps nothing: TensorFlow's own may take an array over instead of copying it."""

    def __init__(self, variable):
        self.path, self.shape, self.dtype = variable.path, variable.shape, variable.dtype

    def assign(self, values):
        assert values.shape == self.shape


@pytest.mark.parametrize("format", ["huggingface", "google"])
def test_loading_holds_one_tensor_beside_the_model(larger, format):
    stored, model = open_checkpoint(larger / format), make_model("encoder", **SIZES)
    sinks = [Sink(variable) for variable in model.weights]
    whole = {"config": model.config, "task": "encoder", "num_labels": None}
    stand_in = types.SimpleNamespace(weights=sinks, encoder=types.SimpleNamespace(weights=sinks), **whole)
    watched = Watched(stored.tensors)
    dataclasses.replace(stored, tensors=watched).load_into(stand_in)
    assert len(watched.held) == len(sinks) and max(watched.held) == 0


def test_writing_holds_one_tensor_beside_the_model(larger, tmp_path):
    model = make_model("encoder", num_layers=6, hidden_dim=96, intermediate_dim=384)  # 2.7 MB: names are a small part
    save(model, tmp_path / "first", "huggingface")  # what is imported stays, and is not meant
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    save(model, tmp_path / "out", "huggingface")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - before < 4 * model.count_params() / 3


@pytest.mark.parametrize("name", slow_but(("classification",), ("encoder", "classification")))
def test_through_every_format_in_turn(name, tmp_path):
    """What all formats hold comes back bit for bit after all of them, and a second round writes the same bytes."""
    model = make_model(name, activation="gelu_tanh", layer_norm_epsilon=1e-12)
    formats = ["huggingface", "google", "huggingface"]
    save(model, tmp_path / "0", "google")
    for i, format in enumerate(formats, start=1):
        kbert.save_pretrained(load(tmp_path / str(i - 1)), tmp_path / str(i), format=format)
    last = load(tmp_path / str(len(formats)))
    assert_same_weights(last, model)
    assert last.config == model.config
    settings = dataclasses.asdict(load(tmp_path / "0").pretrained.settings)
    assert dataclasses.asdict(last.pretrained.settings) == settings
    for file in ("model.safetensors", "config.json", "vocab.txt", "tokenizer.json"):
        assert (tmp_path / "1" / file).read_bytes() == (tmp_path / str(len(formats)) / file).read_bytes(), file


def test_a_model_kept_in_bfloat16_is_written_as_float32():
    model = randomise(kbert.BertEncoder(tiny_config(), dtype="bfloat16"))
    for name, (_, values) in export_tensors(NAMES, model).items():
        assert values().dtype == np.float32, name
