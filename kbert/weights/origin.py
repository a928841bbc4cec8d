"""Where the weights of a model come from, for as long as it has them."""

import dataclasses
import pathlib
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from kbert.files import read_json
from kbert.keras_compat import set_untracked
from kbert.pipelines.registry import task_class, task_names
from kbert.pipelines.text_columns import TextColumns
from kbert.weights.formats.kbert import MANIFEST, WEIGHTS, is_kbert_directory

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel


@dataclasses.dataclass(frozen=True)
class Origin:
    """What `kbert.load_pretrained`, `kbert.finetune` and `kbert.pretrain` note about the weights of a model.

    Attributes:
        name: of a run, a directory or a model on the hub; None: the training wrote nothing.
        path: where the model is stored, or None.
        weights_sha256: the hash of its weights when it was loaded or stored. None: the format has no manifest.
        run: description of a training that wrote nothing; {} otherwise.
        metrics: of such a training.
    """

    name: str | None
    path: pathlib.Path | None
    weights_sha256: str | None = None
    run: dict[str, Any] = dataclasses.field(default_factory=dict)
    metrics: dict[str, Any] = dataclasses.field(default_factory=dict)


def set_origin(model: "BertModel", origin: Origin) -> None:
    """Notes where the weights that the model has now come from."""
    set_untracked(model, "_origin", (origin, _checksum(model)))


def stored_origin(path: pathlib.Path, hub_name: str | None = None) -> Origin:
    """The origin of a stored model; one in ``model/`` of a run has the name of the run."""
    path = pathlib.Path(path).resolve()
    name = hub_name or (path.parent if path.name == "model" else path).name
    return Origin(name, path, stored_weights_sha256(path))


def stored_weights_sha256(path: pathlib.Path) -> str | None:
    """The hash of the weights in a kbert directory, as its manifest says; None: it is none."""
    return read_json(path / MANIFEST)["files"][WEIGHTS]["sha256"] if is_kbert_directory(path) else None


def is_replaced(origin: Origin) -> bool:
    """Whether the place of a stored model has been taken by another one, or by none."""
    return origin.weights_sha256 is not None and stored_weights_sha256(origin.path) != origin.weights_sha256


def origin_of(model: "BertModel") -> Origin | None:
    """Where the weights come from; None for new ones, and for those that have changed since."""
    origin, checksum = vars(model).get("_origin", (None, None))
    return origin if origin is not None and _checksum(model) == checksum else None


def trained_columns(model: "BertModel") -> dict[str, TextColumns]:
    """Table columns of the fine-tuning, by the pipeline input that they fill; {} if not known."""
    origin, _ = vars(model).get("_origin", (None, None))
    if origin is None:
        return {}
    run = origin.run
    if origin.path is not None and (manifest := origin.path / MANIFEST).is_file() and not is_replaced(origin):
        run = read_json(manifest).get("made_by") or {}
    return TextColumns.from_fields(trained_task(run), ("text", "text_pair"))


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


def _checksum(model):
    """A checksum of all weights, which takes about half a second for BERT-base."""
    checksum = 0
    for variable in model.weights:
        values = np.ascontiguousarray(ops.convert_to_numpy(variable))
        checksum = zlib.crc32(values.reshape(-1).view(np.uint8), checksum)
    return checksum
