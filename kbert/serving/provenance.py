"""Where a model comes from: for the card of its export, and for reading files as in its training."""

import contextlib
from typing import Any

from kbert.checks import check_path
from kbert.files import read_json
from kbert.serving.saved_model_file import find_export
from kbert.training.inputs import weights_hash
from kbert.training.made_by import describe_maker
from kbert.weights.formats.kbert.read import MANIFEST, WEIGHTS, is_kbert_directory
from kbert.weights.origin import origin_of

_READING = ("text", "text_pair", "label", "label_separator", "prompt", "choices", "format")
_READING += ("scheme", "tag_column", "context")


def provenance(model) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is known about the weights of a model: how they were made, and their metrics.

    The first has the model's name, the hash of its weights (of a kbert directory that of its manifest; of several files
    that of the lines that ``sha256sum`` prints of them), and what is known about the run; it is read when it is asked
    for. Nothing is known about weights that have changed since they were loaded or trained by
    kbert.
    """
    if (origin := origin_of(model)) is None:
        return {}, {}
    made_by = {} if origin.name is None else {"model": origin.name}
    if origin.path is None:
        return made_by | {"run": origin.run}, origin.metrics
    if is_kbert_directory(origin.path):
        made_by["weights_sha256"] = read_json(origin.path / MANIFEST)["files"][WEIGHTS]["sha256"]
    else:
        with contextlib.suppress(FileNotFoundError):  # the files may have gone since they were loaded
            made_by["weights_sha256"] = weights_hash(origin.path)
    if (maker := describe_maker(origin.path)) is not None:
        made_by["run"] = maker
    return made_by, _metrics_of(origin.path)


def trained_options(source) -> dict[str, Any]:
    """How the files were read that a model was fine-tuned on, as far as its run says.

    Args:
        source: as for `kbert.load_pretrained`, or the path of a SavedModel of `kbert.export`.

    Returns:
        Field of the task object, of those on columns and formats → value.
    """
    check_path(source, "trained_options: `source`")
    if (export := find_export(source)) is not None:
        card = export / "card.json"
        run = read_json(card).get("made_by", {}).get("run") if card.is_file() else None
    else:
        run = describe_maker(source)
    settings = (run or {}).get("settings", {})
    return {name: settings[name] for name in _READING if settings.get(name) is not None}


def _metrics_of(path):
    """The metrics.json that a recipe wrote in the model's directory, or in the run's beside ``model/``."""
    for file in (path / "metrics.json", path.parent / "metrics.json")[: 2 if path.name == "model" else 1]:
        if file.is_file():
            return read_json(file)
    return {}
