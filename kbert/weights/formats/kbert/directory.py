"""The kbert directory, its four files: checked when read, written whole or not at all."""

import contextlib
import dataclasses
import datetime
import json
import pathlib
import platform

import numpy as np
from keras import ops

from kbert.config import BertConfig
from kbert.files import read_json, sha256, write_directory
from kbert.pipelines.settings import ModelSettings
from kbert.text.vocabulary import read_vocabulary, write_vocabulary
from kbert.versions import versions
from kbert.weights.description import ModelDescription
from kbert.weights.files.h5_file import H5File
from kbert.weights.files.h5_write import h5_errors_raised
from kbert.weights.formats.sizes import SIZES, check_settings, check_sizes, check_variables

CONFIG, VOCABULARY, WEIGHTS, MANIFEST = "config.json", "vocab.txt", "model.weights.h5", "manifest.json"
_FILES = (CONFIG, VOCABULARY, WEIGHTS, MANIFEST)
_FORMAT, _VERSION = "kbert", 1
_CONFIG_KEYS = ("format", "format_version", "architecture", "model", "encoder", "quantized_layers", "trainability")


@dataclasses.dataclass(frozen=True)
class KbertDirectory:
    """What a kbert directory holds, checked; the weights themselves stay on disk until `load_into`."""

    path: pathlib.Path
    description: ModelDescription
    settings: ModelSettings
    vocabulary: list[str]

    def load_into(self, model):
        """Loads the weights into a model that was built from `description`.

        Raises:
            ValueError: weights that are not this model's.
        """
        try:
            model.load_weights(self.path / WEIGHTS)
        except (ValueError, OSError, RuntimeError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{self.path / WEIGHTS} does not fit its config: {error}") from error
        for variable in model.weights:
            values = ops.convert_to_numpy(variable)
            if np.issubdtype(values.dtype, np.floating) and not np.all(np.isfinite(values)):
                raise ValueError(f"{self.path / WEIGHTS}: {variable.path} holds values that are no finite numbers.")


def is_kbert_directory(path) -> bool:
    """Whether `path` claims to be a kbert directory (it may still be damaged)."""
    config = pathlib.Path(path) / CONFIG
    if not config.is_file():
        return False
    try:
        content = read_json(config)
    except ValueError:
        return (config.parent / MANIFEST).is_file()
    return content.get("format") == _FORMAT


def read_kbert_directory(path) -> KbertDirectory:
    """Reads and checks all but the weights' values; builds nothing.

    The weights and the vocabulary must be the very files that were saved (sha256). config.json may be edited.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a damaged file, an unknown entry, a vocabulary that does not fit the architecture.
    """
    path = pathlib.Path(path)
    missing = [name for name in _FILES if not (path / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{path}: expected a kbert directory with {list(_FILES)}. Missing: {missing}")
    description, settings = _read_config(path / CONFIG)
    _check_hashes(path)
    _check_weights(path, description)
    vocabulary = read_vocabulary(path / VOCABULARY)
    if len(vocabulary) != description.config.vocabulary_size:
        raise ValueError(
            f"{path}: {VOCABULARY} must hold as many tokens as the model's table has rows (vocabulary_size in "
            f"{CONFIG}: {description.config.vocabulary_size}). Received: {len(vocabulary)} tokens"
        )
    return KbertDirectory(path, description, settings, vocabulary)


def write_kbert_directory(path, model, settings: ModelSettings, vocabulary, made_by=None, overwrite=False):
    """Writes under a temporary name beside `path`, then renames: a reader sees the old directory, the new one or none.

    Raises:
        FileExistsError: there is something else at `path`; or a kbert directory, and not `overwrite`.
    """
    path = pathlib.Path(path).absolute()
    check_target(path, overwrite)
    description = ModelDescription.of(model)

    def write(place):
        (place / CONFIG).write_text(_json(_config(description, settings)), encoding="utf-8")
        write_vocabulary(place / VOCABULARY, vocabulary)
        with _without_optimizer(model), h5_errors_raised(path / WEIGHTS):
            model.save_weights(place / WEIGHTS)
        (place / MANIFEST).write_text(_json(_manifest(place, model, made_by)), encoding="utf-8")

    write_directory(path, write, needed=4 * model.count_params())


@contextlib.contextmanager
def _without_optimizer(model):
    """Keras would write the state of a compiled model's optimizer as well, which is twice the size of the weights."""
    optimizer = model.__dict__.pop("optimizer", None)
    try:
        yield
    finally:
        model.__dict__["optimizer"] = optimizer


def check_target(path, overwrite=False):
    """Raises FileExistsError if a kbert directory may not be written at `path`; call it before long work."""
    path = pathlib.Path(path)
    if not path.exists():
        return
    if not path.is_dir():
        raise FileExistsError(f"Expected a directory to save to. Received: {path}, which is a file")
    present = sorted(entry.name for entry in path.iterdir())
    others = [name for name in present if name not in _FILES]
    if others or (present and not is_kbert_directory(path)):
        raise FileExistsError(
            f"{path} holds other things than a kbert directory; save to a new place. Found: {(others or present)[:8]}"
        )
    if present and not overwrite:
        raise FileExistsError(f"{path} already holds a saved model. Pass overwrite=True to replace it.")


def _config(description, settings):
    return {
        "format": _FORMAT,
        "format_version": _VERSION,
        **dataclasses.replace(settings, task=description.task).to_dict(),
        "model": description.arguments,
        "encoder": description.encoder_arguments,
        "architecture": description.config.to_dict(),
        "quantized_layers": description.quantized_layers,
        "trainability": description.trainability,
    }


def _read_config(path):
    content = read_json(path)
    if content.get("format") != _FORMAT:
        raise ValueError(f'{path}: expected the config of a kbert directory, with "format": "{_FORMAT}".')
    if content.get("format_version") != _VERSION:
        raise ValueError(
            f"{path}: this kbert reads format_version {_VERSION}. Received: {content.get('format_version')!r}; "
            "read it with the kbert that wrote it, or a newer one."
        )
    try:
        settings = ModelSettings.from_dict({k: v for k, v in content.items() if k not in _CONFIG_KEYS})
        description = ModelDescription(
            settings.task,
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
    """Compares the sizes with the weights before anything is built of them."""
    file = H5File([path / WEIGHTS], "kbert")
    names = {name: name for name in ("num_labels", *SIZES)}
    shapes = {name: info.shape for name, info in file.tensors.items()}
    check_sizes(description, "kbert", shapes, names, str(path / CONFIG), str(path / WEIGHTS))
    encoder = description.encoder_arguments or description.arguments
    check_variables(description, encoder.get("pooler", False), "kbert", file.tensors, str(path / WEIGHTS), heads=True)


def _manifest(directory, model, made_by):
    files = {}
    for name in (CONFIG, VOCABULARY, WEIGHTS):
        files[name] = {"sha256": sha256(directory / name), "bytes": (directory / name).stat().st_size}
    return {
        "files": files,
        "parameters": model.count_params(),
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **versions()},
        "made_by": made_by or {},
    }


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


def _json(value):
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
