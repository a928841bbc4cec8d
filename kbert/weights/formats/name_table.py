"""The variables of kbert's models, and which tensor of another format holds each; used in both directions.

Letters of the shapes: V vocabulary, S positions (length of the table), G segments, H hidden, F intermediate, A heads,
D head width, N labels; digits are literal sizes.
"""

import dataclasses
import re
from collections.abc import Mapping

import numpy as np

from kbert.config import BertConfig
from kbert.pipelines.registry import task_class, task_names

# Path → letters of the shape, in the order of a model's variables. {i} is the number of the block.
VARIABLES = {
    "embeddings/token_embedding/embeddings": "VH",
    "embeddings/segment_embedding/embeddings": "GH",
    "embeddings/position_embedding/embeddings": "SH",
    "embeddings/layer_norm/gamma": "H",
    "embeddings/layer_norm/beta": "H",
    "encoder_block_{i}/attention/query/kernel": "HH",
    "encoder_block_{i}/attention/query/bias": "H",
    "encoder_block_{i}/attention/key/kernel": "HH",
    "encoder_block_{i}/attention/key/bias": "H",
    "encoder_block_{i}/attention/value/kernel": "HH",
    "encoder_block_{i}/attention/value/bias": "H",
    "encoder_block_{i}/attention/output/kernel": "HH",
    "encoder_block_{i}/attention/output/bias": "H",
    "encoder_block_{i}/attention_layer_norm/gamma": "H",
    "encoder_block_{i}/attention_layer_norm/beta": "H",
    "encoder_block_{i}/feed_forward/intermediate/kernel": "HF",
    "encoder_block_{i}/feed_forward/intermediate/bias": "F",
    "encoder_block_{i}/feed_forward/output/kernel": "FH",
    "encoder_block_{i}/feed_forward/output/bias": "H",
    "encoder_block_{i}/feed_forward_layer_norm/gamma": "H",
    "encoder_block_{i}/feed_forward_layer_norm/beta": "H",
    "pooler/dense/kernel": "HH",
    "pooler/dense/bias": "H",
    "masked_lm_head/transform/kernel": "HH",
    "masked_lm_head/transform/bias": "H",
    "masked_lm_head/layer_norm/gamma": "H",
    "masked_lm_head/layer_norm/beta": "H",
    "masked_lm_head/output_embeddings": "VH",
    "masked_lm_head/output_bias": "V",
    "next_sentence_head/dense/kernel": "H2",
    "next_sentence_head/dense/bias": "2",
    "classifier_head/dense/kernel": "HN",
    "classifier_head/dense/bias": "N",
    "regressor_head/dense/kernel": "H1",
    "regressor_head/dense/bias": "1",
    "span_head/dense/kernel": "H2",
    "span_head/dense/bias": "2",
    "tagger_head/dense/kernel": "HN",
    "tagger_head/dense/bias": "N",
    "multiple_choice_head/dense/kernel": "H1",
    "multiple_choice_head/dense/bias": "1",
}
SIZES = {  # letter → the field of `BertConfig`
    "V": "vocabulary_size",
    "S": "max_sequence_length",
    "G": "num_segments",
    "H": "hidden_dim",
    "F": "intermediate_dim",
    "A": "num_heads",
    "D": "head_dim",
}
BLOCK_VARIABLES = [name for name in VARIABLES if name.startswith("encoder_block_")]
_BLOCK = re.compile(r"^encoder_block_(\d+)/")


def numbered(variable: str) -> tuple[str, str | None]:
    """The path with ``{i}`` for the number of its block, and that number (None if it is in no block)."""
    block = _BLOCK.match(variable)
    return (variable, None) if block is None else ("encoder_block_{i}/" + variable[block.end() :], block[1])


def all_variables() -> dict[str, str]:
    """`VARIABLES`, and the variables of tasks from outside kbert."""
    return VARIABLES | {path: dims for task in task_names() for path, dims in task_class(task).head_variables.items()}


def encoder_variables(config: BertConfig, pooler: bool = True) -> list[str]:
    """The paths of an encoder's variables, without building it."""
    embeddings = [name for name in VARIABLES if name.startswith("embeddings/")]
    if config.position_embedding != "learned":
        embeddings.remove("embeddings/position_embedding/embeddings")
    blocks = [name.format(i=i) for i in range(config.num_layers) for name in BLOCK_VARIABLES]
    return embeddings + blocks + (["pooler/dense/kernel", "pooler/dense/bias"] if pooler else [])


def head_variables(task: str) -> list[str]:
    """The paths of the variables of a task's heads, including the table of an untied decoder."""
    task = task_class(task)
    return [name for name in VARIABLES if name.split("/")[0] in task.heads] + list(task.head_variables)


def sizes_of(config: BertConfig, num_labels: int | None = None) -> dict[str, int]:
    """The sizes for the letters of the shapes in a model of this config."""
    sizes = {letter: getattr(config, field) for letter, field in SIZES.items()} | {"1": 1, "2": 2}
    return sizes if num_labels is None else {**sizes, "N": num_labels}


@dataclasses.dataclass(frozen=True)
class TensorName:
    """A variable in another format: its name there, the letters of its shape there, and whether it is transposed.

    Without letters they are the variable's, reversed if it is transposed. Both conversions are exact.
    """

    name: str
    dims: str | None = None
    transposed: bool = False

    def shape(self, sizes: dict[str, int]) -> tuple[int, ...]:
        return tuple(sizes[letter] for letter in self.dims)

    def to_kbert(self, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """The format's values as values of kbert's variable with this shape."""
        return values.T if self.transposed else values.reshape(shape)

    def from_kbert(self, values: np.ndarray, sizes: dict[str, int]) -> np.ndarray:
        """The inverse of `to_kbert`."""
        return values.T if self.transposed else values.reshape(self.shape(sizes))


def transposed(name: str) -> TensorName:
    """A matrix that is stored as [outputs, inputs]."""
    return TensorName(name, transposed=True)


class NameTable:
    """The names of one format. It cannot hold the variables that have none here.

    Args:
        names: kbert's path of a variable → `TensorName`, or just the name of a tensor of equal shape. ``{i}`` is the
            number of the block.
        layers: kbert's path of a layer → its name there, for the other variables.
        parts: the name of a layer's variable → what follows the name of the layer there, if not "/" and the same name.
        transposed_kernels: whether the layers' matrices are stored as [outputs, inputs].
        absent: first part of the path of a missing variable → why the format cannot hold it, for messages.

    Example::

        names = NameTable("google", {}, {"encoder_block_{i}/attention/query": "bert/encoder/layer_{i}/query"})
        names.find("encoder_block_3/attention/query/bias").name  # "bert/encoder/layer_3/query/bias"
    """

    def __init__(
        self,
        format: str,
        names: Mapping[str, TensorName | str],
        layers: Mapping[str, str] | None = None,
        parts: Mapping[str, str] | None = None,
        transposed_kernels: bool = False,
        absent: Mapping[str, str] | None = None,
    ) -> None:
        self.format = format
        self._absent = absent or {}
        layers = layers or {}
        parts = parts or {}
        entries = {name: TensorName(entry) if isinstance(entry, str) else entry for name, entry in names.items()}
        for variable in VARIABLES:
            layer, _, part = variable.rpartition("/")
            if layer in layers and variable not in entries:
                name = layers[layer] + parts.get(part, "/" + part)
                entries[variable] = TensorName(name, transposed=transposed_kernels and part == "kernel")
        if unknown := sorted(set(entries) - set(VARIABLES)):
            raise ValueError(f"{format}: expected paths of kbert's variables. Received: {unknown}")
        self._names = {variable: _with_dims(entry, VARIABLES[variable]) for variable, entry in entries.items()}

    def find(self, variable: str) -> TensorName | None:
        """The tensor that holds the variable of this path; None: the format cannot hold it."""
        path, number = numbered(variable)
        tensor = self._names.get(path)
        if tensor is None or number is None:
            return tensor
        return dataclasses.replace(tensor, name=tensor.name.format(i=number))

    def why_absent(self, variable: str) -> str:
        return self._absent.get(variable.split("/")[0], f"the variable {variable}")


def _with_dims(entry, dims):
    return dataclasses.replace(entry, dims=entry.dims or (dims[::-1] if entry.transposed else dims))


class _OwnNames(NameTable):
    """Every variable has its own path as its name, also in tasks from outside kbert."""

    def find(self, variable):
        path, _ = numbered(variable)
        dims = VARIABLES.get(path) or all_variables().get(path)
        return None if dims is None else TensorName(variable, dims)


OWN_NAMES = _OwnNames("kbert", names={})
