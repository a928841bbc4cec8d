"""A format of checkpoints as somebody else would add one: this file, and one line that registers it."""

import pathlib

import numpy as np

from kbert.files import read_json, write_json
from kbert.text.vocabulary import read_vocabulary, write_vocabulary
from kbert.weights.description import default_settings
from kbert.weights.files.tensor_file import TensorInfo, checked_file
from kbert.weights.formats.checkpoint import (
    SETTINGS,
    TensorCheckpoint,
    described,
    read_kbert_settings,
)
from kbert.weights.formats.config_names import ConfigNames
from kbert.weights.formats.export_tensors import check_held, export_tensors
from kbert.weights.formats.name_table import VARIABLES, NameTable, TensorName
from kbert.weights.formats.registry import Format

CONFIG, WEIGHTS, VOCABULARY = "toy.json", "toy.npz", "words.txt"


def _names():
    """Its own name for each variable; the matrices of attention are transposed, the query is split by heads."""
    names = {}
    for variable in VARIABLES:
        if not variable.startswith(("tagger_head", "masked_lm_head", "next_sentence_head", "regressor_head")):
            name = "toy." + variable.replace("/", ".")
            transposed = "attention/" in variable and variable.endswith("kernel")
            names[variable] = TensorName(name, transposed=transposed)
    names["encoder_block_{i}/attention/query/kernel"] = TensorName("q{i}", "HAD")
    return names


NAMES = NameTable("toy", _names(), absent={"tagger_head": "a tagging head: toys have no words"})
CONFIG_NAMES = ConfigNames(
    format="toy",
    fields={
        "vocabulary_size": "words",
        "num_layers": "floors",
        "hidden_dim": "width",
        "num_heads": "eyes",
        "intermediate_dim": "belly",
        "max_sequence_length": "longest",
        "num_segments": "sides",
        "hidden_dropout": "lost",
        "attention_dropout": "ignored",
    },
    fixed={
        "activation": "gelu_tanh",
        "layer_norm_epsilon": 1e-12,
        "causal": False,
        "initializer_stddev": 0.02,
        "position_embedding": "learned",
        "pooled_token": "first",
    },
)


class NumpyFile:
    """An ``.npz`` file as a `TensorFile`."""

    def __init__(self, path):
        self.path = checked_file(path)
        with np.load(path, allow_pickle=False) as arrays:
            self.tensors = {name: TensorInfo(arrays[name].shape, arrays[name].dtype.name) for name in arrays}

    def read(self, name):
        with np.load(self.path, allow_pickle=False) as arrays:
            return arrays[name]


class ToyFormat(Format):
    """Arrays of NumPy beside a config."""

    name = "toy"
    title = f"a toy ({CONFIG}, {WEIGHTS})"
    files = (CONFIG, WEIGHTS, VOCABULARY, SETTINGS)

    def recognises(self, path):
        return (path / CONFIG).is_file()

    def read(self, path, vocabulary=None):
        content, tensors = read_json(path / CONFIG), NumpyFile(path / WEIGHTS)
        config = CONFIG_NAMES.to_kbert(content, str(path / CONFIG))
        arguments = {"num_labels": content["num_labels"]} if "num_labels" in content else {}
        vocabulary = vocabulary or (path / VOCABULARY if (path / VOCABULARY).is_file() else None)
        return TensorCheckpoint(
            path=path,
            config_path=path / CONFIG,
            names=NAMES,
            config_names=CONFIG_NAMES,
            description=described(content["task"], config, pooler=True, **arguments),
            settings=read_kbert_settings(path, content["task"]) or default_settings(content["task"], config, {}),
            vocabulary=None if vocabulary is None else read_vocabulary(vocabulary),
            tensors=tensors,
            stored_names={name: name for name in tensors.tensors},
        ).check()

    def write(self, directory, model, settings, vocabulary, *, made_by=None):
        directory = pathlib.Path(directory)
        content = CONFIG_NAMES.from_kbert(model.config) | {"task": model.task}
        tensors = export_tensors(NAMES, model)
        check_held(NAMES, model, pooler=True, reason="a toy has one")
        content |= {"num_labels": model.num_labels} if model.num_labels else {}
        write_json(directory / CONFIG, content)
        write_json(directory / SETTINGS, settings.to_dict())
        if vocabulary is not None:
            write_vocabulary(directory / VOCABULARY, vocabulary)
        np.savez(directory / WEIGHTS, **{name: values() for name, (_, values) in tensors.items()})


FORMAT = ToyFormat()
