"""Where a model that is exported comes from, for its card."""

from typing import Any

from kbert.files import read_json
from kbert.serving.saved_model_file import find_export
from kbert.training.made_by import describe_maker
from kbert.weights.formats.kbert.read import MANIFEST, WEIGHTS, is_kbert_directory
from kbert.weights.origin import origin_of


def provenance(model) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is known about the weights of a model: how they were made, and their metrics.

    The first has the model's name, the hash of the weights of a kbert directory, and what is known about the run; it is
    read when it is asked for. Nothing is known about weights that have changed since they were loaded or trained by
    kbert.
    """
    if (origin := origin_of(model)) is None:
        return {}, {}
    made_by = {} if origin.name is None else {"model": origin.name}
    if origin.path is None:
        return made_by | {"run": origin.run}, origin.metrics
    if is_kbert_directory(origin.path):
        made_by["weights_sha256"] = read_json(origin.path / MANIFEST)["files"][WEIGHTS]["sha256"]
    if (maker := describe_maker(origin.path)) is not None:
        made_by["run"] = maker
    return made_by, _metrics_of(origin.path)


def trained_columns(source) -> dict[str, Any]:
    """The columns of the table that a model was fine-tuned on, where they are known.

    Args:
        source: as for `kbert.load_pretrained`, or the path of a SavedModel of `kbert.export`.

    Returns:
        Input of the pipeline → column; ``choice_columns`` of multiple choice → columns.
    """
    if (export := find_export(source)) is not None:
        card = export / "card.json"
        run = read_json(card).get("made_by", {}).get("run") if card.is_file() else None
    else:
        run = describe_maker(source)
    settings = (run or {}).get("settings", {})
    found = {name: settings.get(name) for name in ("text", "text_pair", "prompt")}
    found["choice_columns"] = settings.get("choices")
    return {name: columns for name, columns in found.items() if columns is not None}


def _metrics_of(path):
    """The metrics.json that a recipe wrote in the model's directory, or in the run's beside ``model/``."""
    for file in (path / "metrics.json", path.parent / "metrics.json")[: 2 if path.name == "model" else 1]:
        if file.is_file():
            return read_json(file)
    return {}
