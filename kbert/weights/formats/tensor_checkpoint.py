"""A checkpoint of named tensors: checked before anything is built, then streamed into a model."""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from kbert.config import BertConfig
from kbert.pipelines.registry import task_class
from kbert.pipelines.settings import ModelSettings
from kbert.weights.description import ModelDescription
from kbert.weights.files.tensor_file import TensorFile
from kbert.weights.formats.checkpoint import Checkpoint
from kbert.weights.formats.config_names import ConfigNames
from kbert.weights.formats.name_table import NameTable, TensorName
from kbert.weights.formats.sizes import check_settings, check_sizes, check_variables
from kbert.weights.formats.variables import heads_of, sizes_of
from kbert.weights.report import LOADED, NEW, UNUSED, LoadReport, ReportRow

NO_VOCABULARY = "no vocabulary (vocab.txt): the model takes token ids, but no strings (pass `vocabulary`)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorCheckpoint(Checkpoint):
    """A checkpoint whose config, vocabulary, settings, names and shapes are known; the values stay on disk.

    Attributes:
        config_path: the file with its sizes.
        names, config_names: tables of its format.
        tensors: its file of tensors.
        stored_names: the format's standard name → the name in this file (they differ by prefixes and old spellings).
        ignored: names in the file that hold no weights (counters, position ids, optimizer slots).
        remarks: lines for the report: decisions, with reasons, on what the checkpoint leaves open.
    """

    config_path: pathlib.Path
    names: NameTable
    config_names: ConfigNames
    tensors: TensorFile
    stored_names: dict[str, str]
    ignored: frozenset[str] = frozenset()
    remarks: tuple[str, ...] = ()

    def check(self) -> "TensorCheckpoint":
        """Itself; ValueError unless sizes, encoder and vocabulary fit the weights."""
        pooler = (self.description.encoder_arguments or self.description.arguments).get("pooler", True)
        tensors = {name: self.tensors.tensors[stored] for name, stored in self.stored_names.items()}
        check_sizes(
            self.description,
            self.names,
            {name: info.shape for name, info in tensors.items()},
            self.config_names.size_names(),
            str(self.config_path),
            str(self.tensors.path),
        )
        check_variables(self.description, pooler, self.names, tensors, str(self.tensors.path))
        try:
            check_settings(self.settings, self.description)
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None
        self.check_vocabulary()
        return self

    def check_vocabulary(self):
        """Raises ValueError unless the vocabulary is as long as the table of token embeddings."""
        rows = self.description.config.vocabulary_size
        if self.vocabulary is None or len(self.vocabulary) == rows:
            return
        advice = (
            "Tokens beyond the table cannot be looked up: this vocabulary belongs to another model."
            if len(self.vocabulary) > rows
            else "If the table was filled up to a round size, fill the vocabulary up too: append lines such as "
            f"[filler0], [filler1] … until it has {rows}, and pass the file as `vocabulary`."
        )
        raise ValueError(
            f"{self.path}: the vocabulary must have as many tokens as the table of word pieces has rows ({rows}). "
            f"Received: {len(self.vocabulary)} tokens. {advice}"
        )

    def load_into(self, model) -> LoadReport:
        """Streams the values into a model's variables, with one tensor at a time in memory besides them.

        Heads that the checkpoint does not have, or has with another shape, stay newly initialised.
        """
        own_parts = _parts(self.description)
        sizes = sizes_of(model.config, _num_labels(model))
        needed = {v.path for v in model.encoder.weights if not v.path.startswith("pooler/")}
        rows, used = [], set()
        for variable in model.weights:
            path = variable.path
            tensor = self.names.find(path) if path.split("/")[0] in own_parts else None
            name = self.stored_names.get(tensor.name) if tensor else None
            if name is None or self.tensors.tensors[name].shape != tensor.shape(sizes):
                if path in needed:
                    raise ValueError(f"{self.tensors.path} has nothing for {path}, a variable of the encoder.")
                rows.append(ReportRow(path, "", NEW))
                continue
            self._assign(variable, tensor, name)
            used.add(name)
            rows.append(ReportRow(path, name, LOADED))
        known = used | self.ignored
        rows += [ReportRow("", name, UNUSED) for name in self.tensors.tensors if name not in known]
        return LoadReport(str(self.path), rows, self.remarks)

    def _assign(self, variable, tensor: TensorName, name):
        values = self.tensors.read(name)
        if not np.all(np.isfinite(values)):
            raise ValueError(f"{self.tensors.path}: the tensor {name!r} holds values that are not finite.")
        variable.assign(tensor.to_kbert(values.astype("float32", copy=False), variable.shape))


def described(task: str, config: BertConfig, pooler: bool, **arguments) -> ModelDescription:
    """The description of a model of this task, whose encoder keeps its pooler even if the task does not use it."""
    encoder = {"outputs": ["sequence_output", "pooled_output"] if pooler else ["sequence_output"], "pooler": pooler}
    if task == "encoder":
        return ModelDescription(task, config, {**encoder, **arguments})
    return ModelDescription(task, config, arguments, encoder)


def default_settings(
    task: str, config: BertConfig, tokenizer: dict[str, Any], length: int | None = None
) -> ModelSettings:
    """Settings with texts of the default length, within the position table."""
    longest = config.max_sequence_length
    length = min(length, longest) if length else task_class(task).default_sequence_length(longest)
    return ModelSettings(task=task, sequence_length=length, tokenizer=tokenizer)


def case_remark(cased: bool) -> str:
    """The line of the report on how the letter case was decided if the checkpoint does not say."""
    kind = "cased" if cased else "uncased"
    return f"the checkpoint does not say so, but its vocabulary looks {kind}: lowercase={not cased}"


def _parts(description):
    """First parts of the paths of the variables that the checkpoint can have: in some formats heads share a name."""
    blocks = [f"encoder_block_{i}" for i in range(description.config.num_layers)]
    return {"embeddings", *blocks, "pooler", *heads_of(description.task)}


def _num_labels(model):
    return model.num_labels or 1
