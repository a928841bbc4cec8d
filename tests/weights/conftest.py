"""Directories that many tests change: written once, copied for each."""

import shutil

import pytest
from helpers.hf_directory import copy_golden
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer

import kbert


@pytest.fixture(scope="session")
def _pretrained(tmp_path_factory):
    model = randomise(kbert.BertPretrainer(tiny_config()))
    path = tmp_path_factory.mktemp("pretrained") / "model"
    kbert.save_pretrained(model, path, tokenizer=tiny_tokenizer())
    return path, model


@pytest.fixture
def pretrained(_pretrained, tmp_path):
    """The kbert directory of a pre-trained model, to be changed; the model, to be left alone."""
    path, model = _pretrained
    return shutil.copytree(path, tmp_path / "run/model"), model


@pytest.fixture
def directory(tmp_path):
    """A copy of the golden Hugging Face directory, to be changed."""
    return copy_golden("safetensors", tmp_path / "model")
