"""Reads the four files of kbert's own directory; checks everything but the values before anything is built."""

import dataclasses
import functools
import pathlib

import numpy as np
from keras import ops

from kbert.config import BertConfig
from kbert.files import read_json, sha256
from kbert.pipelines.settings import ModelSettings
from kbert.text.vocabulary import read_vocabulary
from kbert.weights.description import ModelDescription
from kbert.weights.files.h5_file import H5File
from kbert.weights.formats.checkpoint import Checkpoint
from kbert.weights.formats.kbert.names import NAMES
from kbert.weights.formats.sizes import SIZES, check_settings, check_sizes, check_variables
from kbert.weights.report import LoadReport, all_loaded, transfer

CONFIG, VOCABULARY, WEIGHTS, MANIFEST = "config.json", "vocab.txt", "model.weights.h5", "manifest.json"
FILES = (CONFIG, VOCABULARY, WEIGHTS, MANIFEST)
FORMAT, VERSION = NAMES.format, 2
_CONFIG_KEYS = ("format", "format_version", "architecture", "model", "encoder", "quantized_layers", "trainability")


@dataclasses.dataclass(frozen=True, kw_only=True)
class KbertCheckpoint(Checkpoint):
    """What a kbert directory holds, checked; the weights themselves stay on disk until `load_into`.

    Attributes:
        tensors: the weights by their paths, without what quantised layers have besides.
    """

    tensors: H5File

    def load_into(self, model) -> LoadReport:
        """Loads the weights that both have, with one of them in memory beside the model."""
        if self.description.quantized_layers:  # it can only be loaded as it is
            self._load_weights(model)
            return all_loaded(model, str(self.path))
        tensors = self.tensors.tensors
        stored = {name: (info.shape, functools.partial(self._read, name)) for name, info in tensors.items()}
        return transfer(stored, model, str(self.path))

    def _read(self, name):
        values = self.tensors.read(name)
        if not np.all(np.isfinite(values)):
            raise ValueError(f"{self.path / WEIGHTS}: {name} holds values that are not finite.")
        return values.astype("float32", copy=False)

    def _load_weights(self, model):
        """Lets Keras read them, as quantised layers have variables that are in no name table."""
        try:
            model.load_weights(self.path / WEIGHTS)
        except (ValueError, OSError, RuntimeError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{self.path / WEIGHTS} does not fit its config: {error}") from error
        for variable in model.weights:
            values = ops.convert_to_numpy(variable)
            if np.issubdtype(values.dtype, np.floating) and not np.all(np.isfinite(values)):
                raise ValueError(f"{self.path / WEIGHTS}: {variable.path} holds values that are not finite.")


def is_kbert_directory(path) -> bool:
    """Whether `path` claims to be a kbert directory (it may still be damaged)."""
    config = pathlib.Path(path) / CONFIG
    if not config.is_file():
        return False
    try:
        content = read_json(config)
    except ValueError:
        return (config.parent / MANIFEST).is_file()
    return content.get("format") == FORMAT


def read_kbert_directory(path) -> KbertCheckpoint:
    """Reads and checks all but the weights' values; builds nothing.

    The weights and the vocabulary must be the very files that were saved (SHA-256). config.json may be edited.
    """
    path = pathlib.Path(path)
    missing = [name for name in FILES if not (path / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{path}: expected a kbert directory with {list(FILES)}. Missing: {missing}")
    description, settings = read_kbert_config(path / CONFIG)
    _check_hashes(path)
    tensors = _check_weights(path, description)
    vocabulary = read_kbert_vocabulary(path, description.config)
    return KbertCheckpoint(
        format=FORMAT, path=path, description=description, settings=settings, vocabulary=vocabulary, tensors=tensors
    )


def read_kbert_vocabulary(path, config) -> list[str]:
    """The tokens in a kbert directory; ValueError unless they are as many as the model has."""
    vocabulary = read_vocabulary(path / VOCABULARY)
    if len(vocabulary) != config.vocabulary_size:
        raise ValueError(
            f"{path}: {VOCABULARY} must hold as many tokens as the model's table has rows (vocabulary_size in "
            f"{CONFIG}: {config.vocabulary_size}). Received: {len(vocabulary)} tokens"
        )
    return vocabulary


def read_kbert_config(path) -> tuple[ModelDescription, ModelSettings]:
    """What a kbert directory's config.json says of the model and of its use."""
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise ValueError(f'{path}: expected the config of a kbert directory, with "format": "{FORMAT}".')
    if content.get("format_version") != VERSION:
        raise ValueError(
            f"{path}: this kbert reads format_version {VERSION}. Received: {content.get('format_version')!r}; "
            "read it with the kbert that wrote it, or a newer one."
        )
    try:
        settings = ModelSettings.from_dict({k: v for k, v in content.items() if k not in _CONFIG_KEYS})
        description = ModelDescription(
            settings.task.name,
            BertConfig.from_dict(content.get("architecture", {})),
            content.get("model", {}),
            content.get("encoder"),
            content.get("quantized_layers", {}),
            content.get("trainability", []),
        )
        check_settings(settings, description)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
    return description, settings


def _check_weights(path, description):
    """The weights, whose sizes are compared with the config before anything is built of them."""
    file = H5File([path / WEIGHTS], NAMES.layer_variables())
    names = {name: name for name in ("num_labels", *SIZES)}
    shapes = {name: info.shape for name, info in file.tensors.items()}
    check_sizes(description, NAMES, shapes, names, str(path / CONFIG), str(path / WEIGHTS))
    encoder = description.encoder_arguments or description.arguments
    check_variables(description, encoder.get("pooler", False), NAMES, file.tensors, str(path / WEIGHTS), heads=True)
    return file


def _check_hashes(path):
    try:
        files = read_json(path / MANIFEST)["files"]
        expected = {name: (files[name]["sha256"], files[name]["bytes"]) for name in (VOCABULARY, WEIGHTS)}
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path / MANIFEST} is damaged: {error!r}") from error
    for name, (digest, size) in expected.items():
        received = (path / name).stat().st_size
        if received != size:
            raise ValueError(f"{path / name} is damaged: expected {size} bytes. Received: {received} bytes")
        if sha256(path / name) != digest:
            raise ValueError(f"{path / name} is damaged or was changed: its sha256 is not the one in {MANIFEST}")
