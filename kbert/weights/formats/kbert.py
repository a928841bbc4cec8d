"""kbert's own directory: everything that a pipeline needs, with hashes."""

import datetime
import pathlib
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from kbert.config import BertConfig
from kbert.files import read_json, sha256, write_json
from kbert.keras_compat import without_optimizer
from kbert.models.quantized_layers import quantized_layers
from kbert.options import PathLike
from kbert.pipelines.settings import ModelSettings
from kbert.text.vocabulary import read_vocabulary, write_vocabulary
from kbert.versions import versions
from kbert.weights.description import ModelDescription, check_settings
from kbert.weights.files.h5_file import STORAGE_DTYPES, H5File, cast_h5
from kbert.weights.formats.checkpoint import TensorCheckpoint
from kbert.weights.formats.config_names import SIZES, ConfigNames
from kbert.weights.formats.name_table import (
    VARIABLES,
    NameTable,
    TensorName,
    all_variables,
    group_by_layer,
    numbered,
)
from kbert.weights.report import LoadReport, all_loaded

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel

CONFIG = "config.json"
VOCABULARY = "vocab.txt"
WEIGHTS = "model.weights.h5"
MANIFEST = "manifest.json"
TITLE = f"a kbert directory ({CONFIG}, {VOCABULARY}, {WEIGHTS}, {MANIFEST})"
FILES = (CONFIG, VOCABULARY, WEIGHTS, MANIFEST)
_NAME = "kbert"
_VERSION = 2
_CONFIG_KEYS = ("format", "format_version", "architecture", "model", "encoder", "quantized_layers", "trainability")


def recognizes(path: pathlib.Path) -> bool:
    return is_kbert_directory(path.parent if path.is_file() else path)


def read(path: pathlib.Path, vocabulary: PathLike | None = None) -> TensorCheckpoint:
    """Weights and vocabulary must be the very files that were saved (SHA-256); config.json may be edited."""
    if vocabulary is not None:
        raise ValueError("A kbert directory has a vocabulary of its own: `vocabulary` cannot replace it.")
    path = path.parent if path.is_file() else path
    if missing := [name for name in FILES if not (path / name).is_file()]:
        raise FileNotFoundError(f"{path}: expected a kbert directory with {list(FILES)}. Missing: {missing}")
    description, settings = read_kbert_config(path / CONFIG)
    _check_hashes(path)
    tensors = H5File([path / WEIGHTS], NAMES.layer_variables())
    return KbertCheckpoint(
        path=path,
        config_path=path / CONFIG,
        names=NAMES,
        config_names=_CONFIG_NAMES,
        description=description,
        settings=settings,
        vocabulary=read_vocabulary(path / VOCABULARY),
        tensors=tensors,
        stored_names={name: name for name in tensors.tensors},
    ).check(heads=True)


def write(
    directory: pathlib.Path,
    model: "BertModel",
    settings: ModelSettings,
    vocabulary: list[str] | None,
    *,
    made_by: Mapping[str, Any] | None = None,
    storage_dtype: str = "float32",
) -> None:
    """`made_by` goes into the manifest, `storage_dtype` is the type of the weights on disk."""
    if storage_dtype not in STORAGE_DTYPES:
        raise ValueError(f"`storage_dtype` must be one of {STORAGE_DTYPES}. Received: {storage_dtype!r}")
    if storage_dtype != "float32" and quantized_layers(model):
        raise ValueError(
            f"`storage_dtype` must be float32 for a quantised model, which is small. Received: {storage_dtype!r}"
        )
    write_json(directory / CONFIG, kbert_config(ModelDescription.from_model(model), settings))
    write_vocabulary(directory / VOCABULARY, vocabulary)
    with without_optimizer(model):
        model.save_weights(directory / WEIGHTS)
    if storage_dtype != "float32":
        cast_h5(directory / WEIGHTS, storage_dtype)
    manifest = {
        "files": {
            name: {"sha256": sha256(directory / name), "bytes": (directory / name).stat().st_size}
            for name in (CONFIG, VOCABULARY, WEIGHTS)
        },
        "parameters": model.count_params(),
        "storage_dtype": storage_dtype,
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **versions()},
        "made_by": made_by or {},
    }
    write_json(directory / MANIFEST, manifest)


class _KbertNames(NameTable):
    """Every variable has its own path as its name, also those of tasks from outside kbert."""

    def find(self, variable):
        path, _ = numbered(variable)
        dims = VARIABLES.get(path) or all_variables().get(path)
        return None if dims is None else TensorName(variable, dims)

    def layer_variables(self):
        return group_by_layer(all_variables())


NAMES = _KbertNames("kbert", names={})
_CONFIG_NAMES = ConfigNames(format="kbert", fields={name: name for name in SIZES})


class KbertCheckpoint(TensorCheckpoint):
    """Weights in kbert's own names; quantised models can only be loaded as they are."""

    def load_into(self, model: "BertModel") -> LoadReport:
        if not self.description.quantized_layers:
            return super().load_into(model)
        path = self.path / WEIGHTS
        try:
            model.load_weights(path)  # by Keras, as quantised layers have variables that are in no name table
        except (ValueError, OSError, RuntimeError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} does not fit its config: {error}") from error
        for variable in model.weights:
            values = ops.convert_to_numpy(variable)
            if np.issubdtype(values.dtype, np.floating) and not np.all(np.isfinite(values)):
                raise ValueError(f"{path}: {variable.path} holds values that are not finite.")
        return all_loaded(model, str(self.path))


def is_kbert_directory(path: PathLike) -> bool:
    """Whether `path` claims to be a kbert directory (it may still be damaged)."""
    config = pathlib.Path(path) / CONFIG
    if not config.is_file():
        return False
    try:
        content = read_json(config)
    except ValueError:
        return (config.parent / MANIFEST).is_file()
    return content.get("format") == _NAME


def read_kbert_vocabulary(path: pathlib.Path, config: BertConfig) -> list[str]:
    """The tokens; ValueError unless they are as many as the model has."""
    vocabulary = read_vocabulary(path / VOCABULARY)
    if len(vocabulary) != config.vocabulary_size:
        raise ValueError(
            f"{path}: {VOCABULARY} must hold as many tokens as the model's table has rows (vocabulary_size in "
            f"{CONFIG}: {config.vocabulary_size}). Received: {len(vocabulary)} tokens"
        )
    return vocabulary


def read_kbert_config(path: PathLike) -> tuple[ModelDescription, ModelSettings]:
    """What a kbert directory's config.json says of the model and of its use."""
    content = read_json(path)
    if content.get("format") != _NAME:
        raise ValueError(f'{path}: expected the config of a kbert directory, with "format": "{_NAME}".')
    if content.get("format_version") != _VERSION:
        raise ValueError(
            f"{path}: this kbert reads format_version {_VERSION}. Received: {content.get('format_version')!r}; "
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


def kbert_config(description: ModelDescription, settings: ModelSettings) -> dict:
    """The content of config.json."""
    return {
        "format": _NAME,
        "format_version": _VERSION,
        **settings.to_dict(),
        "model": description.arguments,
        "encoder": description.encoder_arguments,
        "architecture": description.config.to_dict(),
        "quantized_layers": description.quantized_layers,
        "trainability": description.trainability,
    }
