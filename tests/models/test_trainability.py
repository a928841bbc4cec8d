"""Frozen layers and variables are the same ones in a .keras file and in a copy; a loaded model learns as a whole."""

import json
import random

import keras
import pytest
from helpers.slow_but import slow_but
from helpers.tiny_bert import tiny_config, tiny_tokenizer

import kbert
from kbert.models.trainability import trainability

MODELS = {
    "encoder": lambda: kbert.BertEncoder(tiny_config()),
    "classification": lambda: kbert.BertClassifier(tiny_config(num_layers=1), num_labels=3),
    "pretraining": lambda: kbert.BertPretrainer(tiny_config(num_layers=1)),
}


def state(model):
    """Of everything with weights, whether it learns."""
    layers = [layer for layer in model._flatten_layers(include_self=True) if layer.weights]
    return [layer.trainable for layer in layers], {v.path: v.trainable for v in model.weights}


def copies(model, path):
    model.save(path / "it.keras")
    yield keras.models.load_model(path / "it.keras")
    yield type(model).from_config(json.loads(json.dumps(model.get_config())))


def test_an_unfrozen_layer_in_a_frozen_block(tmp_path):
    model = MODELS["encoder"]()
    model.blocks[0].trainable = False
    model.blocks[0].attention_layer_norm.trainable = True
    for copy in copies(model, tmp_path):
        assert len(copy.trainable_variables) == len(model.trainable_variables) == len(model.weights) - 14
        assert state(copy) == state(model)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", slow_but((0,), range(4)))
def test_any_pattern(name, seed, tmp_path):
    model, source = MODELS[name](), random.Random(seed)
    layers = model._flatten_layers(include_self=True)
    for _ in range(source.choice((1, 3, 8))):
        source.choice(layers).trainable = source.random() < 0.4
    for _ in range(source.choice((0, 2))):
        source.choice(model.weights).trainable = source.random() < 0.5
    for copy in copies(model, tmp_path):
        assert state(copy) == state(model)


def test_a_model_that_learns_as_a_whole_says_nothing():
    assert trainability(MODELS["classification"]()) == []


def test_a_frozen_encoder_is_one_step():
    model = MODELS["classification"]()
    model.encoder.trainable = False
    assert trainability(model) == [["encoder", False]]


def test_a_loaded_model_learns_as_a_whole(tmp_path):
    model = MODELS["classification"]()
    model.encoder.trainable = False
    kbert.save_pretrained(model, tmp_path / "it", tokenizer=tiny_tokenizer())
    loaded = kbert.load_pretrained(tmp_path / "it")
    assert len(loaded.trainable_variables) == len(loaded.weights)
