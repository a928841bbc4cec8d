"""JSON nested a hundred thousand levels deep, in every file of a checkpoint: an error that names the file."""

import functools
import pathlib
import shutil

import pytest
from helpers.hf_directory import GOLDEN, copy_golden
from helpers.stored_models import make_model, save

from kbert.weights.files.safetensors_file import SafetensorsFile
from kbert.weights.open_checkpoint import open_checkpoint

NESTED = '{"a":' * 100_000 + "1" + "}" * 100_000


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Function of a format: a directory of it, to be copied."""
    home = tmp_path_factory.mktemp("saved")

    @functools.cache
    def write(format):
        save(make_model("classification"), home / format, format)
        return home / format

    return write


def nest(path):
    path.write_text(NESTED)
    return path


@pytest.mark.parametrize("name", ["config.json", "manifest.json"])
def test_kbert(name, saved, tmp_path):
    shutil.copytree(saved("kbert"), tmp_path / "it")
    nest(tmp_path / "it" / name)
    with pytest.raises(ValueError, match=f"{name}.*nested"):
        open_checkpoint(tmp_path / "it")


HUGGINGFACE = "config tokenizer_config tokenizer added_tokens kbert_settings sentence_bert_config 1_Pooling/config"


@pytest.mark.parametrize("name", [f"{name}.json" for name in HUGGINGFACE.split()])
def test_huggingface(name, tmp_path):
    path = copy_golden("safetensors", tmp_path / "it")
    (path / name).parent.mkdir(exist_ok=True)
    nest(path / name)
    with pytest.raises(ValueError, match=f"{name}.*nested"):
        open_checkpoint(path)


def test_the_index_of_shards(tmp_path):
    path = copy_golden("sharded", tmp_path / "it")
    nest(path / "model.safetensors.index.json")
    with pytest.raises(ValueError, match="index.json.*nested"):
        open_checkpoint(path)


def test_the_header_of_safetensors(tmp_path):
    (tmp_path / "it.safetensors").write_bytes(len(NESTED).to_bytes(8, "little") + NESTED.encode())
    with pytest.raises(ValueError, match="it.safetensors.*recursion limit"):
        SafetensorsFile(tmp_path / "it.safetensors")


@pytest.mark.parametrize("name", ["bert_config.json", "kbert_settings.json"])
def test_google(name, tmp_path):
    path = pathlib.Path(shutil.copytree(GOLDEN / "google_pretraining", tmp_path / "it"))
    nest(path / name)
    with pytest.raises(ValueError, match=f"{name}.*nested"):
        open_checkpoint(path)


@pytest.mark.parametrize("name", ["task.json", "tokenizer.json", "preprocessor.json", "kbert_settings.json"])
def test_kerashub(name, saved, tmp_path):
    pytest.importorskip("keras_hub")
    shutil.copytree(saved("kerashub"), tmp_path / "it")
    nest(tmp_path / "it" / name)
    (tmp_path / "it/kbert_settings.json").unlink() if name == "preprocessor.json" else None
    with pytest.raises(ValueError, match=f"{name}.*nested"):
        open_checkpoint(tmp_path / "it")
