"""How a model was made: what its manifest or, for a checkpoint of a run, the run's own files say about it."""

import pathlib
from collections.abc import Mapping, Sequence

from kbert.files import read_json
from kbert.training.inputs import as_list, describe_inputs
from kbert.versions import versions
from kbert.weights.formats.kbert import MANIFEST, is_kbert_directory
from kbert.weights.origin import Origin, set_origin, stored_origin
from kbert.weights.source import checkpoint_step, is_step_checkpoint

SETTINGS, INPUTS, METRICS = "settings.json", "inputs.json", "metrics.json"
MODEL = "model"


def describe_maker(path) -> dict | None:
    """What made a model: recipe, versions, settings, inputs and metrics; None if it is of another format.

    Args:
        path: of a kbert directory, of a recipe's output with one in ``model/``, or of a checkpoint, whose run says it
            (with `step`, without metrics).
    """
    path = pathlib.Path(path)
    if is_step_checkpoint(path):
        run = path.parent.parent
        is_whole = (run / SETTINGS).is_file() and (run / INPUTS).is_file()  # not a copy of the checkpoints alone
        return run_record(run) | {"step": checkpoint_step(path)} if is_whole else None
    for directory in (path / MODEL, path):
        if directory.is_dir() and is_kbert_directory(directory):
            return read_json(directory / MANIFEST).get("made_by") or {}
    return None


def run_record(run) -> dict:
    """Recipe, versions, settings and inputs of the run in a directory.

    Inputs have their name and hash; inputs that are models also have the description of their own run, so that the
    whole chain of runs behind a model can be traced. It contains no paths.
    """
    run = pathlib.Path(run)
    record, settings = read_json(run / INPUTS), read_json(run / SETTINGS)
    inputs = describe_inputs(record["inputs"])
    for argument, maker in record["made_by"].items():
        inputs[argument]["made_by"] = maker
    settings = {name: value for name, value in settings.items() if name not in inputs}
    return {"recipe": record["recipe"], "versions": record["versions"], "settings": settings, "inputs": inputs}


def note_origin(model, run, metrics, recipe, settings: Mapping, inputs: Sequence[str]) -> None:
    """Notes on a model that a run has trained where its weights come from, for `kbert.export`.

    Args:
        run: `kbert.training.run_directory.RunDirectory` that has stored the model; None: nothing was written.
        metrics, recipe, settings: what would be written.
        inputs: names of those settings that are inputs, which may be paths of this machine.
    """
    if run is not None:
        set_origin(model, stored_origin(run.path / "model"))
        return
    settings = {name: value for name, value in settings.items() if name not in inputs}
    about = {"recipe": recipe, "versions": versions(), "settings": settings}
    set_origin(model, Origin(None, None, about, metrics))


def makers(inputs: Mapping[str, object]) -> dict:
    """For arguments that are models with a known maker: what `describe_maker` says of them."""
    found = {}
    for argument, value in inputs.items():
        for path in [] if value is None else as_list(value):
            if (maker := describe_maker(path)) is not None:
                found[argument] = maker
    return found
