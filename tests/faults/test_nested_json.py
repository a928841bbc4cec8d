"""JSON nested a hundred thousand levels deep, in every file of a checkpoint: an error that names the file."""

import functools
import pathlib
import shutil

import pytest
from helpers.hf_directory import GOLDEN
from helpers.stored_models import make_model, save

from kbert.weights.files.safetensors_file import SafetensorsFile
from kbert.weights.source import open_checkpoint

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


HUGGINGFACE = "config tokenizer_config tokenizer added_tokens sentence_bert_config 1_Pooling/config"
FILES = {
    "huggingface": ("config", "kbert"),
    "hf_safetensors": HUGGINGFACE.split(),
    "hf_sharded": ("model.safetensors.index",),
    "google_pretraining": ("bert_config", "kbert_settings"),
}


@pytest.mark.parametrize("format, name", [(format, f"{name}.json") for format in FILES for name in FILES[format]])
def test_the_file_is_named(format, name, saved, tmp_path):
    source = GOLDEN / format if "_" in format else saved(format)
    path = pathlib.Path(shutil.copytree(source, tmp_path / "it"))
    (path / name).parent.mkdir(exist_ok=True)
    (path / name).write_text(NESTED)
    with pytest.raises(ValueError, match=f"{name}.*expected JSON as other programs write it"):
        open_checkpoint(path)


def test_the_header_of_safetensors(tmp_path):
    (tmp_path / "it.safetensors").write_bytes(len(NESTED).to_bytes(8, "little") + NESTED.encode())
    with pytest.raises(ValueError, match="it.safetensors.*recursion limit"):
        SafetensorsFile(tmp_path / "it.safetensors")
