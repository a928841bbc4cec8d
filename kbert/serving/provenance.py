"""Where a model comes from: for the card of its export, and for reading files as in its training."""

import pathlib
from typing import Any

from kbert.files import read_json
from kbert.serving.saved_model_file import find_export
from kbert.training.made_by import describe_maker
from kbert.weights.formats.kbert.read import MANIFEST, WEIGHTS, is_kbert_directory

_READING = ("text", "text_pair", "label", "label_separator", "prompt", "choices", "format")
_READING += ("scheme", "tag_column", "context")


def provenance(source) -> dict[str, Any]:
    """The name of the model, the hash of the weights of a kbert directory, and what is known about the run."""
    path = pathlib.Path(source)
    made_by = {"model": path.resolve().name if path.exists() else str(source)}
    if is_kbert_directory(path):
        manifest = read_json(path / MANIFEST)
        made_by["weights_sha256"] = manifest["files"][WEIGHTS]["sha256"]
    if (maker := describe_maker(path)) is not None:
        made_by["run"] = maker
    return made_by


def trained_options(source) -> dict[str, Any]:
    """How the files were read that a model was fine-tuned on, as far as its run says.

    Args:
        source: as for `kbert.load_pretrained`, or the path of a SavedModel of `kbert.export`.

    Returns:
        Field of the task object, of those on columns and formats → value.
    """
    if (export := find_export(source)) is not None:
        card = export / "card.json"
        run = read_json(card).get("made_by", {}).get("run") if card.is_file() else None
    else:
        run = describe_maker(source)
    settings = (run or {}).get("settings", {})
    return {name: settings[name] for name in _READING if settings.get(name) is not None}


def metrics_of(source) -> dict[str, Any]:
    """The metrics.json that a recipe wrote in the model's directory or beside it; {} if there is none."""
    path = pathlib.Path(source)
    for file in (path / "metrics.json", path.parent / "metrics.json"):
        if path.is_dir() and file.is_file():
            return read_json(file)
    return {}
