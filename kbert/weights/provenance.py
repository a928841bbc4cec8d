"""How the weights of an in-memory model were made, noted when they were loaded or trained."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbert.files import read_json
from kbert.pipelines.registry import task_class, task_names
from kbert.pipelines.text_columns import TextColumns
from kbert.weights.formats.huggingface_weights import WEIGHTS
from kbert.weights.formats.kbert_json import read_kbert_json
from kbert.weights.step_paths import METRICS, MODEL

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel


@dataclasses.dataclass(frozen=True)
class Provenance:
    """The value of ``model.provenance``, set by loading and training.

    `fit`, `set_weights`, `load_weights` and `load_adapter` clear it.

    Attributes:
        made_by: What an export's card says: ``model``, the name of a run, directory or model on the hub, and
            ``weights_sha256`` and ``run`` from kbert.json.
        metrics: The run's metrics.json.
        path: Where the model is stored. Defaults to nowhere.
    """

    made_by: dict[str, Any]
    metrics: dict[str, Any] = dataclasses.field(default_factory=dict)
    path: pathlib.Path | None = None


def stored_provenance(path: pathlib.Path, hub_name: str | None = None) -> Provenance:
    """The provenance of a stored model; one in ``model/`` of a run has the name of the run."""
    path = pathlib.Path(path).resolve()
    is_runs = path.name == MODEL
    made_by = {"model": hub_name or (path.parent if is_runs else path).name}
    if content := read_kbert_json(path):
        made_by |= {"weights_sha256": content["sha256"].get(WEIGHTS), "run": content["made_by"]}
    files = [path / METRICS, *([path.parent / METRICS] if is_runs else [])]
    file = next((file for file in files if file.is_file()), None)
    return Provenance(made_by, {} if file is None else read_json(file), path)


def trained_columns(model: "BertModel") -> dict[str, TextColumns]:
    """Table columns of the fine-tuning, by the pipeline input that they fill; {} if not known."""
    return TextColumns.from_fields(trained_task(stored_run(model)), ("text", "text_pair"))


def stored_run(model: "BertModel") -> Any:
    """What kbert.json says, or will say, of the run that made a model's weights; None if not known."""
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
