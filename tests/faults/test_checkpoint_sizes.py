"""Sizes in a checkpoint's config that are not its weights': an error at once, before anything is allocated."""

import json
import pathlib
import re
import shutil
import time

import pytest
from helpers.fuzz import peak_memory
from helpers.hf_directory import GOLDEN, edit
from helpers.stored_models import make_model, save

from kbert.weights.formats.config_names import SIZES
from kbert.weights.formats.google import CONFIG_NAMES as GOOGLE
from kbert.weights.formats.huggingface import CONFIG_NAMES as HUGGINGFACE
from kbert.weights.formats.kerashub import CONFIG_NAMES as KERASHUB
from kbert.weights.formats.name_table import parameters_of
from kbert.weights.source import open_checkpoint

NAMES = {names.format: names for names in (GOOGLE, HUGGINGFACE, KERASHUB)}
VALUES = (0, -1, 10**9, 10**30, 12.5, "12", None, True)
CONFIGS = dict.fromkeys(("kbert", "huggingface", "kerashub"), "config.json") | {"google": "bert_config.json"}


def put_size(format, path, field, value):
    """Writes a size into the config, and returns the name it has there."""
    config = path / CONFIGS[format]
    if format == "kbert":
        edit(config, architecture=json.loads(config.read_text())["architecture"] | {field: value})
        return field
    name = NAMES[format].size_names()[field]
    if format == "kerashub":
        edit(config, config=json.loads(config.read_text())["config"] | {name: value})
    else:
        edit(config, **{name: value})
    return name


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("sizes")
    save(make_model("classification"), path / "kbert", "kbert")
    save(make_model("classification"), path / "huggingface", "huggingface")
    save(make_model("classification"), path / "google", "google")
    pytest.importorskip("keras_hub")
    save(make_model("classification"), path / "kerashub", "kerashub")
    return path


@pytest.mark.parametrize("format", CONFIGS)
def test_every_size_is_compared_with_the_weights(saved, format, tmp_path):
    path = pathlib.Path(shutil.copytree(saved / format, tmp_path / "it"))
    open_checkpoint(path)
    config = path / CONFIGS[format]
    sound = config.read_text()
    before = peak_memory(begin=True)
    for field in SIZES:
        for value in VALUES:
            name = put_size(format, path, field, value)
            begin = time.thread_time()
            with pytest.raises(ValueError, match=f"{re.escape(str(config))}.*{name}"):
                open_checkpoint(path)
            assert time.thread_time() - begin < 1, (field, value)
            config.write_text(sound)
    assert peak_memory() - before < 100


@pytest.mark.parametrize("format,file", [("kbert", "config.json"), ("kerashub", "task.json")])
def test_the_number_of_labels(saved, format, file, tmp_path):
    path = pathlib.Path(shutil.copytree(saved / format, tmp_path / "it"))
    key, name = ("model", "num_labels") if format == "kbert" else ("config", "num_classes")
    sound = json.loads((path / file).read_text())[key]
    for value in (*VALUES, 2, 4):
        edit(path / file, **{key: sound | {name: value}})
        with pytest.raises(ValueError, match=f"{re.escape(str(path))}.*{name}"):
            open_checkpoint(path)


@pytest.mark.parametrize(
    "task, name",
    [
        ("classification", "sequence_length"),
        ("classification", "doc_stride"),
        ("pretraining", "top_k"),
        ("pretraining", "max_masks"),
        ("span", "n_best"),
        ("span", "max_query_length"),
    ],
)
def test_lengths_and_counts_of_the_settings(task, name, tmp_path):
    path = tmp_path / "it"
    save(make_model(task), path, "kbert")
    content = json.loads((path / "config.json").read_text())
    where = content["task"] if name in content["task"] else content
    for value in (0, -1, 10**9, 10**30, 1.5, "3", None, True):
        where[name] = value
        (path / "config.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match=f"config.json: .*{name}"):
            open_checkpoint(path)


def test_settings_beside_another_format(saved, tmp_path):
    path = pathlib.Path(shutil.copytree(saved / "google", tmp_path / "it"))
    content = json.loads((path / "kbert_settings.json").read_text())
    content["sequence_length"] = 10**9
    (path / "kbert_settings.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="sequence_length"):
        open_checkpoint(path)


def test_the_parts_of_packed_rows(saved, tmp_path):
    path = pathlib.Path(shutil.copytree(saved / "kbert", tmp_path / "it"))
    encoder = json.loads((path / "config.json").read_text())["encoder"]
    for value in (0, 10**9, "2", 1.0, True):
        edit(path / "config.json", encoder=encoder | {"num_parts": value})
        with pytest.raises(ValueError, match="config.json: .*num_parts"):
            open_checkpoint(path)


def test_old_files_of_kerashub_are_not_built_of_any_size(saved, tmp_path):
    """Their layers have no names, so that KerasHub has to build the model first."""
    import h5py

    path = pathlib.Path(shutil.copytree(saved / "kerashub", tmp_path / "it"))
    for name in ("model.weights.h5", "task.weights.h5"):
        with h5py.File(path / name, "a") as file:
            file.visititems(lambda _, entry: entry.attrs.pop("name", None) and None)
    for field in ("num_layers", "intermediate_dim", "max_sequence_length"):
        content = json.loads((path / "config.json").read_text())
        put_size("kerashub", path, field, 10**12)
        with pytest.raises(ValueError, match=f"config.json: the sizes .*{field}"):
            open_checkpoint(path)
        edit(path / "config.json", config=content["config"])


def test_the_number_of_parameters_is_known_without_building():
    model = make_model("encoder")
    assert parameters_of(model.config) == model.count_params()


@pytest.mark.parametrize("field", ["num_hidden_layers", "intermediate_size"])
def test_the_golden_directory(field, tmp_path):
    path = pathlib.Path(shutil.copytree(GOLDEN / "hf_bin", tmp_path / "it"))
    edit(path / "config.json", **{field: 10**9})
    with pytest.raises(ValueError, match=f"config.json: `{field}` is 1000000000, but .*pytorch_model.bin has"):
        open_checkpoint(path)
