"""Damaged checkpoints, 2,000 times a reader: read, or a ValueError or OSError that names the file, in bounds."""

import functools
import pathlib
import shutil

import pytest
from helpers.fuzz import check_reader
from helpers.hf_directory import GOLDEN, copy_golden
from helpers.stored_models import make_model, save

from kbert.weights.files.safetensors_file import SafetensorsFile
from kbert.weights.files.tf_checkpoint_file import TFCheckpointFile
from kbert.weights.files.torch_pickle import TorchPickleFile
from kbert.weights.formats import huggingface
from kbert.weights.source import open_checkpoint

COUNTS = pytest.mark.parametrize("count", [40, pytest.param(2_000, marks=pytest.mark.slow)])


def read_all(file):
    for name in file.tensors:
        file.read(name)


@COUNTS
def test_safetensors(tmp_path, count):
    sound = (GOLDEN / "hf_safetensors/model.safetensors").read_bytes()
    found = check_reader(lambda path: read_all(SafetensorsFile(path)), tmp_path / "it.safetensors", [sound], count)
    assert found["refused"] > 0


@COUNTS
@pytest.mark.parametrize("form", ["bin", "old_bin"])
def test_pickles(tmp_path, form, count):
    sound = (GOLDEN / f"hf_{form}/pytorch_model.bin").read_bytes()
    found = check_reader(lambda path: read_all(TorchPickleFile(path)), tmp_path / "it.bin", [sound], count)
    assert found["refused"] > 0


@COUNTS
def test_the_pickle_alone(tmp_path, count):
    """Half of a small file is its pickle; in a zip, whose checksum would notice, it is damaged before it is packed."""
    import zipfile

    with zipfile.ZipFile(GOLDEN / "hf_bin/pytorch_model.bin") as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    (name,) = [name for name in entries if name.endswith("data.pkl")]

    def read(path):
        with zipfile.ZipFile(tmp_path / "it.bin", "w") as archive:
            for entry, content in (entries | {name: path.read_bytes()}).items():
                archive.writestr(entry, content)
        read_all(TorchPickleFile(tmp_path / "it.bin"))

    check_reader(read, tmp_path / "data.pkl", [entries[name]], count, named="it.bin")


@COUNTS
@pytest.mark.parametrize("ending", ["index", "data-00000-of-00001"])
def test_tensorflow_checkpoints(tmp_path, ending, count):
    for file in (GOLDEN / "google_pretraining").glob("bert_model.ckpt.*"):
        shutil.copy(file, tmp_path)
    path = tmp_path / f"bert_model.ckpt.{ending}"
    sound = path.read_bytes()
    check_reader(
        lambda _: read_all(TFCheckpointFile(tmp_path / "bert_model.ckpt")),
        path,
        [sound],
        count,
        named="bert_model.ckpt",
    )


# The JSON files and vocabularies of a directory, through the whole of its reading.


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Function of a format: a sound directory of it, to be copied."""
    home = tmp_path_factory.mktemp("saved")

    @functools.cache
    def sound(format):
        if format in ("theirs", "google"):
            return GOLDEN / {"theirs": "hf_safetensors", "google": "google_pretraining"}[format]
        model = make_model("classification" if format == "ours" else "masked_lm as KerasHub's")
        save(model, home / format, "huggingface")
        return home / format

    return sound


@COUNTS
@pytest.mark.parametrize(
    "format,name",
    [
        ("ours", "config.json"),
        ("ours", "vocab.txt"),
        ("ours alone", "config.json"),
        ("theirs", "config.json"),
        ("theirs", "tokenizer.json"),
        ("theirs", "tokenizer_config.json"),
        ("google", "bert_config.json"),
        ("google", "vocab.txt"),
    ],
)
def test_the_files_beside_the_weights(saved, tmp_path, monkeypatch, format, name, count):
    monkeypatch.setattr(huggingface, "check_hashes", lambda path: None)  # who damages on purpose writes new ones
    path = pathlib.Path(shutil.copytree(saved(format), tmp_path / "it"))
    sound = (path / name).read_bytes()
    check_reader(lambda _: open_checkpoint(path), path / name, [sound], count, named=str(path))


@COUNTS
def test_kbert_json(saved, tmp_path, count):
    path = pathlib.Path(shutil.copytree(saved("ours"), tmp_path / "it"))
    sound = (path / "kbert.json").read_bytes()
    check_reader(lambda _: open_checkpoint(path), path / "kbert.json", [sound], count, named=str(path))


@COUNTS
def test_the_index_of_shards(tmp_path, count):
    path = copy_golden("sharded", tmp_path / "it")
    sound = (path / "model.safetensors.index.json").read_bytes()
    check_reader(
        lambda _: open_checkpoint(path), path / "model.safetensors.index.json", [sound], count, named=str(path)
    )
