"""A stored model of any format, read and checked except for the values of its weights."""

import dataclasses
import pathlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from kbert.aliases import PathLike
from kbert.files import read_json
from kbert.pipelines.registry import task_class
from kbert.pipelines.settings import ModelSettings
from kbert.weights.description import ModelDescription, check_settings
from kbert.weights.files.tensor_file import TensorFile, read_finite
from kbert.weights.formats.config_names import ConfigNames
from kbert.weights.formats.name_table import NameTable, TensorName, encoder_variables, head_variables
from kbert.weights.report import LoadReport, transfer

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel

NO_VOCABULARY = "no vocabulary (vocab.txt): the model takes token ids, but no strings (pass `vocabulary`)"
SETTINGS = "kbert_settings.json"  # what another format cannot store, beside its files; other programs ignore it
PRETRAINED_TASKS = {  # whether there is a masked-LM head, a next-sentence head → task
    (True, True): "pretraining",
    (True, False): "masked_lm",
    (False, True): "next_sentence",
    (False, False): "encoder",
}
_FEW_CAPITALS = 0.01  # uncased vocabularies have no tokens with capitals, cased ones 20 % and more


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint(ABC):
    """What `Format.read` returns.

    Attributes:
        description: the model that it holds.
        settings: labels, tokenizer settings and lengths, as far as the format has them.
        other_options: fields of task objects that the checkpoint states for other tasks than its own.
        vocabulary: the tokens, or None if the checkpoint has none.
    """

    path: pathlib.Path
    description: ModelDescription
    settings: ModelSettings
    vocabulary: list[str] | None
    other_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @abstractmethod
    def load_into(self, model: "BertModel", new_layers: Collection[str] = ()) -> LoadReport:
        """Loads the weights that both have into a model of this or another task; reports on each variable.

        `new_layers` of the model keep their initial values.
        Damaged values are a ValueError, and so is a missing variable of the encoder, except its pooler's.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorCheckpoint(Checkpoint):
    """A checkpoint of named tensors: checked before anything is built, then streamed into a model.

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
        """Itself; ValueError unless the encoder is whole, the config has the weights' sizes, and the settings fit."""
        description, path = self.description, self.tensors.path
        config = description.config
        if config.num_layers > (blocks := self._count_blocks()):  # first, as it is the length of a list below
            raise ValueError(
                f"{self.config_path}: `{self.config_names.fields['num_layers']}` is {config.num_layers}, but "
                f"{path} has {blocks}."
            )
        needed = encoder_variables(config, description.has_pooler)
        missing, integers = [], []
        for variable, shape in (needed | head_variables(description.task)).items():
            tensor = self.names.find(variable)
            if tensor is None or tensor.name not in self.stored_names:
                if variable in needed:
                    missing.append(f"{variable} (there: {tensor.name})")
                continue
            info = self.tensors.tensors[self.stored_names[tensor.name]]
            self._check_shape(tensor, info.shape, shape)
            if "float" not in info.dtype and variable.rpartition("/")[0] not in description.quantized_layers:
                integers.append(f"{tensor.name} ({info.dtype})")
        if missing:
            raise ValueError(
                f"{path} lacks {len(missing)} variables of the encoder: {_first(missing)}. "
                f"It holds {_first(sorted(self.stored_names))}"
            )
        if integers:
            raise ValueError(
                f"{path}: weights of a type that kbert does not read: {_first(integers)}. A quantised model has to be "
                "converted back to float32, float16 or bfloat16 first."
            )
        check_settings(self.path, self.settings, description)
        return self

    def load_into(self, model: "BertModel", new_layers: Collection[str] = ()) -> LoadReport:
        """Streams the values into a model's variables, with one tensor at a time in memory besides them.

        Heads that the checkpoint does not have, or has with another shape, stay newly initialised.
        """
        heads = task_class(self.description.task).heads  # in some formats heads share a name
        encoder = {variable.path for variable in model.encoder.weights}

        def find(variable):
            if variable.path not in encoder and variable.path.split("/")[0] not in heads:
                return None
            tensor = self.names.find(variable.path)
            if tensor is None or (name := self.stored_names.get(tensor.name)) is None:
                return None
            info = self.tensors.tensors[name]
            fits = info.shape == tensor.shape(variable.shape)
            return name if fits and (info.dtype == "int8") == (variable.dtype == "int8") else None

        def read(variable, name):
            values = read_finite(self.tensors, name)
            values = values if variable.dtype == "int8" else values.astype("float32", copy=False)
            return values.T if self.names.find(variable.path).transposed else values

        names = [name for name in self.tensors.tensors if name not in self.ignored]
        return transfer(model, find, read, names, str(self.path), self.remarks, new_layers)

    def _check_shape(self, tensor: TensorName, shape: tuple[int, ...], dims: tuple[str | int, ...]) -> None:
        sizes = self.description.config.to_dict() | self.description.arguments
        dims = tensor.shape(dims)
        expected = tuple(sizes.get(dim, dim) for dim in dims)
        if shape == expected:
            return
        fields = self.config_names.fields | {"num_labels": "num_labels"}
        for dim, stored, size in zip(dims, shape, expected, strict=False):
            if stored != size and dim in fields:
                raise ValueError(
                    f"{self.config_path}: `{fields[dim]}` is {size}, but {self.tensors.path} has {stored} "
                    f"({tensor.name} of shape {shape})."
                )
        raise ValueError(
            f"{self.tensors.path}: shapes that do not fit the config beside it: {tensor.name}: expected {expected}. "
            f"Received: {shape}"
        )

    def _count_blocks(self) -> int:
        count = 0
        while self.names.find(f"encoder_block_{count}/attention/query/kernel").name in self.stored_names:
            count += 1
        return count


def _first(items, most=4):
    return ", ".join(items[:most]) + (f" … ({len(items)} in all)" if len(items) > most else "")


@dataclasses.dataclass(frozen=True)
class StoredTokenizer:
    """The tokens (None: another tokenizer than kbert's, or none), BertTokenizer's arguments, lines for the report."""

    vocabulary: list[str] | None
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def read_kbert_settings(directory: PathLike, task: str) -> ModelSettings | None:
    """The settings beside a checkpoint of this task; None if there are none, or only for another task."""
    path = pathlib.Path(directory) / SETTINGS
    if not path.is_file():
        return None
    try:
        settings = ModelSettings.from_dict(read_json(path))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged: {error}. Repair or delete it: the checkpoint can be read without it."
        ) from error
    return settings if settings.task.name == task else None


def looks_cased(vocabulary: list[str]) -> bool:
    """Whether so many tokens have capitals that the vocabulary must be a cased one."""
    words = _words(vocabulary)
    return sum(word != word.lower() for word in words) > _FEW_CAPITALS * len(words)


def case_remark(cased: bool) -> str:
    """The line of the report on how the letter case was decided if the checkpoint does not say."""
    kind = "cased" if cased else "uncased"
    return f"the checkpoint does not say so, but its vocabulary looks {kind}: lowercase={not cased}"


def warn_of_wrong_casing(vocabulary: list[str], lowercase: bool, source: str) -> None:
    """Warns if the vocabulary looks cased and the tokenizer lower-cases, or the reverse.

    It is no error: a model may have been trained that way, and must then be used that way.
    """
    words = _words(vocabulary)
    is_latin = sum(any(c.isascii() and c.isalpha() for c in word) for word in words) > len(words) / 2
    is_uncased = is_latin and all(word == word.lower() for word in words)
    if looks_cased(vocabulary) if lowercase else is_uncased:
        kind = "a cased" if lowercase else "an uncased"
        warnings.warn(
            f"{source}: the vocabulary is {kind} one, but the tokenizer has lowercase={lowercase}, so it does not find "
            f"words with capitals. Such models need lowercase={not lowercase}.",
            stacklevel=3,
        )


def _words(vocabulary: list[str]) -> list[str]:
    """The tokens that are not special."""
    return [token for token in vocabulary if not (token.startswith("[") and token.endswith("]"))]
