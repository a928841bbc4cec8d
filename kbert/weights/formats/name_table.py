"""The variables of kbert's models, and which tensor of another format holds each; used in both directions."""

import dataclasses
import re
from collections.abc import Mapping, Sequence

from kbert.config import BertConfig
from kbert.pipelines.registry import task_class

# Path of a layer → shape of its matrix or table, or of its LayerNorm's vectors, as numbers or names of sizes.
# {i} is the number of the block. The order is that of a model's variables.
_LAYERS: dict[str, tuple[str | int, ...]] = {
    "embeddings/token_embedding": ("vocabulary_size", "hidden_dim"),
    "embeddings/segment_embedding": ("num_segments", "hidden_dim"),
    "embeddings/position_embedding": ("max_sequence_length", "hidden_dim"),
    "embeddings/layer_norm": ("hidden_dim",),
    "encoder_block_{i}/attention/query": ("hidden_dim", "hidden_dim"),
    "encoder_block_{i}/attention/key": ("hidden_dim", "hidden_dim"),
    "encoder_block_{i}/attention/value": ("hidden_dim", "hidden_dim"),
    "encoder_block_{i}/attention/output": ("hidden_dim", "hidden_dim"),
    "encoder_block_{i}/attention_layer_norm": ("hidden_dim",),
    "encoder_block_{i}/feed_forward/intermediate": ("hidden_dim", "intermediate_dim"),
    "encoder_block_{i}/feed_forward/output": ("intermediate_dim", "hidden_dim"),
    "encoder_block_{i}/feed_forward_layer_norm": ("hidden_dim",),
    "pooler/dense": ("hidden_dim", "hidden_dim"),
    "masked_lm_head/transform": ("hidden_dim", "hidden_dim"),
    "masked_lm_head/layer_norm": ("hidden_dim",),
    "next_sentence_head/dense": ("hidden_dim", 2),
    "classifier_head/dense": ("hidden_dim", "num_labels"),
    "regressor_head/dense": ("hidden_dim", 1),
    "span_head/dense": ("hidden_dim", 2),
    "tagger_head/dense": ("hidden_dim", "num_labels"),
    "multiple_choice_head/dense": ("hidden_dim", 1),
}


def _variables(layer: str, shape: tuple[str | int, ...]) -> dict[str, tuple[str | int, ...]]:
    if layer.endswith("_embedding"):
        return {f"{layer}/embeddings": shape}
    if layer.endswith("layer_norm"):
        return {f"{layer}/gamma": shape, f"{layer}/beta": shape}
    return {f"{layer}/kernel": shape, f"{layer}/bias": shape[1:]}


_VARIABLES = {path: shape for layer, its in _LAYERS.items() for path, shape in _variables(layer, its).items()}
_VARIABLES["masked_lm_head/output_embeddings"] = _LAYERS["embeddings/token_embedding"]
_VARIABLES["masked_lm_head/output_bias"] = ("vocabulary_size",)
_BLOCK = re.compile(r"^encoder_block_(\d+)/")


def encoder_variables(config: BertConfig, pooler: bool = True) -> dict[str, tuple[str | int, ...]]:
    """Path of each of an encoder's variables → its shape, in fields of `BertConfig`. Nothing is built."""
    variables = {}
    for path, shape in _VARIABLES.items():
        part = path.split("/")[0]
        if part == "embeddings" or (part == "pooler" and pooler):
            variables[path] = shape
        elif part == "encoder_block_{i}":
            variables |= {path.format(i=i): shape for i in range(config.num_layers)}
    if config.position_embedding != "learned":
        del variables["embeddings/position_embedding/embeddings"]
    return variables


def head_variables(task: str) -> dict[str, tuple[str | int, ...]]:
    """The same of a task's heads, including the table of an untied decoder. ``num_labels`` is a size, too."""
    return {path: shape for path, shape in _VARIABLES.items() if path.split("/")[0] in task_class(task).heads}


@dataclasses.dataclass(frozen=True)
class TensorName:
    """A variable in another format: its name there, and whether it is a matrix stored as [outputs, inputs]."""

    name: str
    transposed: bool = False

    def shape(self, shape: Sequence) -> tuple:
        """The shape there, from kbert's."""
        return tuple(shape)[::-1] if self.transposed else tuple(shape)


@dataclasses.dataclass(frozen=True)
class NameTable:
    """The names of one format. It cannot hold the variables that have none here.

    Args:
        names: kbert's path of a variable → `TensorName`, or just the name of a tensor of equal shape. ``{i}`` is the
            number of the block.
        layers: kbert's path of a layer → its name there, for the other variables.
        parts: the name of a layer's variable → what follows the name of the layer there, if not "/" and the same name.
        transposed_kernels: whether the layers' matrices are stored as [outputs, inputs].

    Example::

        names = NameTable("google", {}, {"encoder_block_{i}/attention/query": "bert/encoder/layer_{i}/query"})
        names.find("encoder_block_3/attention/query/bias").name  # "bert/encoder/layer_3/query/bias"
    """

    format: str
    names: Mapping[str, TensorName | str] = dataclasses.field(default_factory=dict)
    layers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    transposed_kernels: bool = False

    def find(self, variable: str) -> TensorName | None:
        """The tensor that holds the variable of this path; None: the format cannot hold it."""
        block = _BLOCK.match(variable)
        path = variable if block is None else "encoder_block_{i}/" + variable[block.end() :]
        layer, _, part = path.rpartition("/")
        tensor = self.names.get(path)
        if isinstance(tensor, str):
            tensor = TensorName(tensor)
        elif tensor is None and layer in self.layers and path in _VARIABLES:
            name = self.layers[layer] + self.parts.get(part, "/" + part)
            tensor = TensorName(name, self.transposed_kernels and part == "kernel")
        return tensor and dataclasses.replace(tensor, name=tensor.name.format(i=block and block[1]))


class _OwnNames(NameTable):
    """Every variable has its own path as its name, also in tasks from outside kbert."""

    def find(self, variable):
        return TensorName(variable)


OWN_NAMES = _OwnNames("kbert")
