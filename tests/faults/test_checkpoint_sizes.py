"""Sizes in a checkpoint's config that are not its weights': an error at once, before anything is allocated."""

import json
import pathlib
import re
import shutil
import time

import pytest
from helpers.fuzz import peak_memory
from helpers.hf_directory import edit
from helpers.stored_models import make_model, save

from kbert.weights.formats.config_names import SIZES
from kbert.weights.formats.google import CONFIG_NAMES as GOOGLE
from kbert.weights.formats.huggingface import CONFIG_NAMES as HUGGINGFACE
from kbert.weights.source import open_checkpoint

NAMES = {names.format: names for names in (GOOGLE, HUGGINGFACE)}
VALUES = (0, -1, 10**9, 10**30, 12.5, "12", None, True)
CONFIGS = {"huggingface": "config.json", "google": "bert_config.json"}


def put_size(format, path, field, value):
    """Writes a size into the config, and returns the name it has there."""
    config = path / CONFIGS[format]
    name = NAMES[format].fields[field]
    edit(config, **{name: value})
    return name


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("sizes")
    save(make_model("classification"), path / "huggingface", "huggingface")
    save(make_model("classification"), path / "google", "google")
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
    save(make_model(task), path, "huggingface")
    content = json.loads((path / "config.json").read_text())
    own = content["kbert"]
    where = own["task"] if name in own["task"] else own
    for value in (0, -1, 10**9, 10**30, 1.5, "3", None, True):
        where[name] = value
        (path / "config.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match=f"{re.escape(str(path))}.*{name}"):
            open_checkpoint(path)


def test_settings_beside_another_format(saved, tmp_path):
    path = pathlib.Path(shutil.copytree(saved / "google", tmp_path / "it"))
    content = json.loads((path / "kbert_settings.json").read_text())
    content["sequence_length"] = 10**9
    (path / "kbert_settings.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="sequence_length"):
        open_checkpoint(path)


def test_the_parts_of_packed_rows(saved, tmp_path):
    path = pathlib.Path(shutil.copytree(saved / "huggingface", tmp_path / "it"))
    own = json.loads((path / "config.json").read_text())["kbert"]
    for value in (0, 10**9, "2", 1.0, True):
        edit(path / "config.json", kbert=own | {"encoder": own["encoder"] | {"num_parts": value}})
        with pytest.raises(ValueError, match=f"{re.escape(str(path))}.*num_parts"):
            open_checkpoint(path)
