"""Writes kbert's own directory: `config.json`, `vocab.txt`, `model.weights.h5`, `manifest.json`."""

import datetime
import pathlib
import platform

from kbert.files import sha256, to_json
from kbert.keras_compat import without_optimizer
from kbert.models.quantized_layers import quantized_layers
from kbert.pipelines.settings import ModelSettings
from kbert.text.vocabulary import write_vocabulary
from kbert.versions import versions
from kbert.weights.description import ModelDescription
from kbert.weights.files.h5_cast import STORAGE_DTYPES, cast_h5
from kbert.weights.formats.kbert.read import CONFIG, FORMAT, MANIFEST, VERSION, VOCABULARY, WEIGHTS


def write_kbert_directory(directory, model, settings: ModelSettings, vocabulary, made_by=None, storage_dtype="float32"):
    """Writes the four files into a directory.

    `made_by` is a dict for the manifest. `storage_dtype`, of `STORAGE_DTYPES`, is the type of the weights on disk.
    """
    if storage_dtype not in STORAGE_DTYPES:
        raise ValueError(f"`storage_dtype` must be one of {STORAGE_DTYPES}. Received: {storage_dtype!r}")
    if storage_dtype != "float32" and quantized_layers(model):
        raise ValueError(
            f"`storage_dtype` must be float32 for a quantised model, which is small. Received: {storage_dtype!r}"
        )
    directory = pathlib.Path(directory)
    config = kbert_config(ModelDescription.from_model(model), settings)
    (directory / CONFIG).write_text(to_json(config), encoding="utf-8")
    write_vocabulary(directory / VOCABULARY, vocabulary)
    with without_optimizer(model):
        model.save_weights(directory / WEIGHTS)
    if storage_dtype != "float32":
        cast_h5(directory / WEIGHTS, storage_dtype)
    (directory / MANIFEST).write_text(to_json(_manifest(directory, model, made_by, storage_dtype)), encoding="utf-8")


def kbert_config(description: ModelDescription, settings: ModelSettings) -> dict:
    return {
        "format": FORMAT,
        "format_version": VERSION,
        **settings.to_dict(),
        "model": description.arguments,
        "encoder": description.encoder_arguments,
        "architecture": description.config.to_dict(),
        "quantized_layers": description.quantized_layers,
        "trainability": description.trainability,
    }


def _manifest(directory, model, made_by, storage_dtype):
    files = {}
    for name in (CONFIG, VOCABULARY, WEIGHTS):
        files[name] = {"sha256": sha256(directory / name), "bytes": (directory / name).stat().st_size}
    return {
        "files": files,
        "parameters": model.count_params(),
        "storage_dtype": storage_dtype,
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **versions()},
        "made_by": made_by or {},
    }
