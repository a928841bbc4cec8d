"""How the weights of an in-memory model were made, noted when they were loaded or trained."""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbert.corpus.records_manifest import MANIFEST as RECORDS_MANIFEST
from kbert.files import read_json
from kbert.pipelines.registry import task_class, task_names
from kbert.pipelines.text_columns import TextColumns
from kbert.weights.formats.huggingface_weights import WEIGHTS
from kbert.weights.formats.kbert_json import read_kbert_json
from kbert.weights.step_paths import INPUTS, METRICS, MODEL, SETTINGS, checkpoint_step, is_step_checkpoint

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel


@dataclasses.dataclass(frozen=True)
class Provenance:
    """The value of ``model.provenance``, set by loading and training.

    `fit`, `train_on_batch`, `set_weights`, `load_weights`, `load_adapter` and `ExactResume` clear it.

    Attributes:
        made_by: What an export's card says: ``model``, the name of a run, directory or model on the hub, and
            ``weights_sha256`` and ``run`` from kbert.json.
        metrics: The run's metrics.json.
        path: Where the model is stored. Defaults to nowhere.
    """

    made_by: dict[str, Any]
    metrics: dict[str, Any] = dataclasses.field(default_factory=dict)
    path: pathlib.Path | None = None


def stored_provenance(path: pathlib.Path, hub_name: str | None = None, is_whole: bool = True) -> Provenance:
    """The provenance of a stored model; one in ``model/`` of a run has the name of the run.

    Without `is_whole`, for another task or with a new head, it has neither the run nor its metrics.
    """
    path = pathlib.Path(path).resolve()
    is_runs = path.name == MODEL
    made_by = {"model": hub_name or (path.parent if is_runs else path).name}
    if content := read_kbert_json(path):
        made_by["weights_sha256"] = content["sha256"].get(WEIGHTS)
    if not is_whole:
        return Provenance(made_by, path=path)
    if (run := describe_maker(path)) is not None:
        made_by["run"] = run
    files = [path / METRICS, *([path.parent / METRICS] if is_runs else [])]
    file = next((file for file in files if file.is_file()), None)
    return Provenance(made_by, {} if file is None else read_json(file), path)


def trained_columns(model: "BertModel") -> dict[str, TextColumns]:
    """Table columns of the fine-tuning, by the pipeline input that they fill; {} if not known."""
    return TextColumns.from_fields(trained_task(maker_of(model)), ("text", "text_pair"))


def maker_of(model: "BertModel") -> dict | None:
    """What made the weights of a model in memory, as `describe_maker`; None if it is not known."""
    return None if model.provenance is None else model.provenance.made_by.get("run")


def reading_fields(run: Any) -> dict[str, Any]:
    """The fields of a fine-tuning's task object that say how its files were read."""
    fields = trained_task(run)
    names = task_class(fields["task"]).reading if fields.get("task") in task_names() else ()
    return {name: fields[name] for name in names if fields.get(name) is not None}


def trained_task(run: Any) -> Mapping[str, Any]:
    """The fields of a fine-tuning's task object, from the description of its run; {} if it has none."""
    settings = run.get("settings") if isinstance(run, Mapping) else None  # it may be the user's own description
    task = settings.get("task") if isinstance(settings, Mapping) else None
    return task if isinstance(task, Mapping) else {}


def describe_maker(path: str | os.PathLike) -> dict | None:
    """What made a model: recipe, versions, settings, inputs and metrics; None if it is of another format.

    The path is of a model directory, of a run's output with one in ``model/``, or of a checkpoint, whose run says it
    (with `step`, without metrics).
    """
    path = pathlib.Path(path)
    if is_step_checkpoint(path):
        run = path.parent.parent
        is_whole = (run / SETTINGS).is_file() and (run / INPUTS).is_file()  # not a copy of the checkpoints alone
        return run_record(run) | {"step": checkpoint_step(path)} if is_whole else None
    for directory in (path / MODEL, path):
        if content := read_kbert_json(directory):
            return content["made_by"]
    return None


def run_record(run: pathlib.Path) -> dict:
    """Recipe, versions, settings and inputs of the run in a directory.

    Inputs have their name and hash; inputs that are models also have the description of their own run, so that the
    whole chain of runs behind a model can be traced. It contains no paths.
    """
    record = read_json(run / INPUTS)
    inputs = describe_inputs(record["inputs"])
    for argument, maker in record["made_by"].items():
        inputs[argument]["made_by"] = maker
    settings = {name: value for name, value in read_json(run / SETTINGS).items() if name not in inputs}
    return {"recipe": record["recipe"], "versions": record["versions"], "settings": settings, "inputs": inputs}


def describe_inputs(recorded: Mapping) -> dict:
    """The inputs of a run for its model's manifest: ``{argument: {"name", "files", "bytes", "sha256"}}``, no paths.

    The hash of several files is that of the lines that ``sha256sum`` prints of them, in the order of their names.
    """
    return {argument: _describe(files) for argument, files in recorded.items()}


def _describe(files: Mapping[str, dict]) -> dict:
    absolute = {os.path.abspath(file): entry for file, entry in files.items()}  # they may be given in either way
    paths = [pathlib.Path(file) for file in sorted(absolute)]
    each = [absolute[str(path)] for path in paths]
    top = paths[0] if len(paths) == 1 else pathlib.Path(os.path.commonpath([path.parent for path in paths]))
    name = f"{top.parent.name}/{top.name}" if top.name in (MODEL, RECORDS_MANIFEST) else top.name
    digest = each[0]["sha256"]
    if len(paths) > 1:
        lines = (f"{entry['sha256']}  {path.relative_to(top)}\n" for entry, path in zip(each, paths, strict=True))
        digest = hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
    return {"name": name, "files": len(paths), "bytes": sum(entry["bytes"] for entry in each), "sha256": digest}
