"""A checkpoint of a training run as a source of models."""

import dataclasses
import logging
import pathlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kbert.aliases import PathLike
from kbert.files import flush, read_json, remove_partial, write_directory
from kbert.models.lora import add_lora, lora_layers, merge_lora
from kbert.weights.description import ModelDescription
from kbert.weights.formats.checkpoint import Checkpoint
from kbert.weights.formats.huggingface import read_description, write_description_files
from kbert.weights.report import LoadReport, all_loaded, transfer
from kbert.weights.step_paths import DESCRIPTION, checkpoint_step

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel
    from kbert.pipelines.settings import ModelSettings

_LOGGER = logging.getLogger("kbert")
MANIFEST = "manifest.json"
VALUES = "values"
ARRAYS = "values.npz"  # written by the JAX backend


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepCheckpoint(Checkpoint):
    """The model of a checkpoint that `kbert.training.exact_resume` wrote; its optimizer is not read."""

    step: int  # updates before it
    lora_layers: dict[str, list] = dataclasses.field(default_factory=dict)  # path of the layer → [rank, alpha]

    def load_into(self, model: "BertModel", new_layers: Collection[str] = ()) -> LoadReport:
        """Loads the weights; for another task through the model that was trained."""
        _LOGGER.info("%s: the weights after step %s of a run", self.path, f"{self.step:,}")
        if ModelDescription.from_model(model) == self.description and not self.lora_layers and not new_layers:
            self._load_weights(model)
            return all_loaded(model, str(self.path))
        trained = self.description.build()
        add_lora(trained, self.lora_layers)
        self._load_weights(trained)
        merge_lora(trained)
        stored = {variable.path: variable for variable in trained.weights}

        def find(variable):
            same = variable.path in stored and stored[variable.path].shape == variable.shape
            return variable.path if same else None

        return transfer(model, find, lambda _, name: stored[name], list(stored), str(self.path), new_layers=new_layers)

    def _load_weights(self, model):
        _, values = read_step_checkpoint(self.path)
        weights = {id(weight) for weight in model.weights}
        for variable, value in zip(model.variables, values, strict=False):  # then the optimizer's
            if not np.all(np.isfinite(value)):
                raise ValueError(f"{self.path}: {variable.path} holds values that are not finite.")
            if id(variable) in weights:
                variable.assign(value)


def read_step_checkpoint(path: pathlib.Path) -> tuple[dict, list[np.ndarray]]:
    """The manifest and the values of a checkpoint: the model's variables, then the optimizer's."""
    manifest = read_json(path / MANIFEST)
    values = _read_values(path, [variable["dtype"] for variable in manifest["variables"]])
    received = [(list(value.shape), value.dtype.name) for value in values]
    expected = [(variable["shape"], variable["dtype"]) for variable in manifest["variables"]]
    if not isinstance(manifest["facts"], dict):
        raise ValueError(f"{MANIFEST} is not that of a checkpoint")
    if manifest["step"] != checkpoint_step(path) or received != expected:
        raise ValueError(f"{MANIFEST} describes another step, or other values")
    return manifest, values


def _read_values(path, dtypes):
    if (path / ARRAYS).exists():
        with np.load(path / ARRAYS) as arrays:
            return [arrays[f"arr_{i}"].astype(dtype, copy=False) for i, dtype in enumerate(dtypes)]
    from kbert.weights.files.tf_checkpoint_file import open_reader

    with open_reader(path / VALUES) as reader:
        return [reader.get_tensor(f"values/{i}/.ATTRIBUTES/VARIABLE_VALUE") for i in range(len(dtypes))]


def open_step_checkpoint(path: PathLike) -> StepCheckpoint:
    """Reads what describes the model of a checkpoint; builds nothing."""
    path = pathlib.Path(path)
    beside = path.parent / DESCRIPTION
    if not beside.is_dir():
        raise FileNotFoundError(
            f"{path}: expected {DESCRIPTION}/ beside a checkpoint, as kbert.pretrain and kbert.finetune write it. "
            "Received: none"
        )
    return StepCheckpoint(path=path, step=checkpoint_step(path), **read_description(beside))


def write_description(
    checkpoints: PathLike, model: "BertModel", settings: "ModelSettings", vocabulary: Sequence[str]
) -> None:
    """Writes beside the checkpoints of a run a model directory without weights, for their use as models."""
    checkpoints = pathlib.Path(checkpoints)
    checkpoints.mkdir(parents=True, exist_ok=True)
    remove_partial(checkpoints)

    def write(directory):
        description = ModelDescription.from_model(model)
        write_description_files(directory, description, settings, vocabulary, lora_layers=lora_layers(model))

    write_directory(checkpoints / DESCRIPTION, write)
    flush(checkpoints)
