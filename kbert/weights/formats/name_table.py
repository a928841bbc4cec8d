"""The variables of kbert's models, and which tensor of another format holds each; used in both directions.

Letters of the shapes: V vocabulary, S positions (length of the table), G segments, H hidden, F intermediate, A heads,
D head width, N labels; digits are literal sizes.
"""

import dataclasses
import re
from collections.abc import Mapping

import numpy as np

from kbert.config import BertConfig
from kbert.pipelines.registry import task_class

# Path of a layer → letters of the shape of its matrix or table, or of its LayerNorm's vectors. {i} is the number of the
# block. The order is that of a model's variables.
_LAYERS = {
    "embeddings/token_embedding": "VH",
    "embeddings/segment_embedding": "GH",
    "embeddings/position_embedding": "SH",
    "embeddings/layer_norm": "H",
    "encoder_block_{i}/attention/query": "HH",
    "encoder_block_{i}/attention/key": "HH",
    "encoder_block_{i}/attention/value": "HH",
    "encoder_block_{i}/attention/output": "HH",
    "encoder_block_{i}/attention_layer_norm": "H",
    "encoder_block_{i}/feed_forward/intermediate": "HF",
    "encoder_block_{i}/feed_forward/output": "FH",
    "encoder_block_{i}/feed_forward_layer_norm": "H",
    "pooler/dense": "HH",
    "masked_lm_head/transform": "HH",
    "masked_lm_head/layer_norm": "H",
    "next_sentence_head/dense": "H2",
    "classifier_head/dense": "HN",
    "regressor_head/dense": "H1",
    "span_head/dense": "H2",
    "tagger_head/dense": "HN",
    "multiple_choice_head/dense": "H1",
}


def _variables(layer: str, dims: str) -> dict[str, str]:
    if layer.endswith("_embedding"):
        return {f"{layer}/embeddings": dims}
    if layer.endswith("layer_norm"):
        return {f"{layer}/gamma": dims, f"{layer}/beta": dims}
    return {f"{layer}/kernel": dims, f"{layer}/bias": dims[1]}


# Path of a variable → letters of its shape.
VARIABLES = {path: dims for layer, its in _LAYERS.items() for path, dims in _variables(layer, its).items()}
VARIABLES |= {"masked_lm_head/output_embeddings": "VH", "masked_lm_head/output_bias": "V"}
SIZES = {  # letter → the field of `BertConfig`
    "V": "vocabulary_size",
    "S": "max_sequence_length",
    "G": "num_segments",
    "H": "hidden_dim",
    "F": "intermediate_dim",
    "A": "num_heads",
    "D": "head_dim",
}
_BLOCK = re.compile(r"^encoder_block_(\d+)/")


def numbered(variable: str) -> tuple[str, str | None]:
    """The path with ``{i}`` for the number of its block, and that number (None if it is in no block)."""
    block = _BLOCK.match(variable)
    return (variable, None) if block is None else ("encoder_block_{i}/" + variable[block.end() :], block[1])


def encoder_variables(config: BertConfig, pooler: bool = True) -> list[str]:
    """The paths of an encoder's variables, without building it."""
    embeddings = [name for name in VARIABLES if name.startswith("embeddings/")]
    if config.position_embedding != "learned":
        embeddings.remove("embeddings/position_embedding/embeddings")
    block = [name for name in VARIABLES if name.startswith("encoder_block_")]
    blocks = [name.format(i=i) for i in range(config.num_layers) for name in block]
    return embeddings + blocks + (["pooler/dense/kernel", "pooler/dense/bias"] if pooler else [])


def head_variables(task: str) -> list[str]:
    """The paths of the variables of a task's heads, including the table of an untied decoder."""
    return [name for name in VARIABLES if name.split("/")[0] in task_class(task).heads]


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
        self._names, self._layers, self._parts = names, layers or {}, parts or {}
        self._transposed_kernels, self._absent = transposed_kernels, absent or {}

    def find(self, variable: str) -> TensorName | None:
        """The tensor that holds the variable of this path; None: the format cannot hold it."""
        path, number = numbered(variable)
        layer, _, part = path.rpartition("/")
        tensor = self._names.get(path)
        if isinstance(tensor, str):
            tensor = TensorName(tensor)
        elif tensor is None and layer in self._layers:
            name = self._layers[layer] + self._parts.get(part, "/" + part)
            tensor = TensorName(name, transposed=self._transposed_kernels and part == "kernel")
        if tensor is None or path not in VARIABLES:
            return None
        dims = tensor.dims or (VARIABLES[path][::-1] if tensor.transposed else VARIABLES[path])
        return TensorName(tensor.name.format(i=number), dims, tensor.transposed)

    def why_absent(self, variable: str) -> str:
        return self._absent.get(variable.split("/")[0], f"the variable {variable}")


class _OwnNames(NameTable):
    """Every variable has its own path as its name, also in tasks from outside kbert, whose shapes are not known."""

    def find(self, variable):
        return TensorName(variable, VARIABLES.get(numbered(variable)[0]))


OWN_NAMES = _OwnNames("kbert", names={})
