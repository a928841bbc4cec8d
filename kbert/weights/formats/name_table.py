"""The one table of names: where each variable of kbert's models lies in every other family of checkpoints.

It is read in both directions, by the readers and the writers. Letters of the shapes: V vocabulary, S positions (length
of the table), G segments, H hidden, F intermediate, A heads, D head width, N labels; digits stand for themselves.
"""

import dataclasses
import re

import numpy as np

from kbert.config import BertConfig
from kbert.pipelines.registry import task_names, task_pipeline

FAMILIES = ("google", "huggingface", "kerashub")


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a family keeps a variable: under what name, in what shape, and whether turned round.

    The two conversions are exact: they move numbers and never change one.
    """

    name: str
    dims: str  # letters of the shape it has there
    transposed: bool = False

    def shape(self, sizes: dict[str, int]) -> tuple[int, ...]:
        """The shape it must have there."""
        return tuple(sizes[letter] for letter in self.dims)

    def to_kbert(self, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """The family's values as those of kbert's variable, which has this shape."""
        return values.T if self.transposed else values.reshape(shape)

    def from_kbert(self, values: np.ndarray, sizes: dict[str, int]) -> np.ndarray:
        """The inverse of `to_kbert`."""
        return values.T if self.transposed else values.reshape(self.shape(sizes))


@dataclasses.dataclass(frozen=True)
class Row:
    """One variable of kbert; `places` has no entry for a family that cannot hold it."""

    variable: str  # its path
    dims: str
    places: dict[str, Place]

    def place(self, family: str) -> Place | None:
        """Its place in a family, or in kbert's own files (where it has its own name); None: there is none."""
        return Place(self.variable, self.dims) if family == "kbert" else self.places.get(family)

    def shape(self, sizes: dict[str, int]) -> tuple[int, ...]:
        """The shape of the variable itself."""
        return tuple(sizes[letter] for letter in self.dims)


def _t(name):
    """A matrix that the family keeps transposed."""
    return name, None, True


def _as(name, dims):
    """The same numbers in the same order, in another shape."""
    return name, dims, False


# kbert's path, its shape; Google's name; Hugging Face's; KerasHub's variable path. {i} is the number of the block.
# Google and Hugging Face hold the heads' matrices as [outputs, H]; Hugging Face's linear layers are all transposed;
# KerasHub splits the heads' axis.
_TABLE = (
    ("embeddings/token_embedding/embeddings", "VH", "bert/embeddings/word_embeddings",
     "bert.embeddings.word_embeddings.weight", "token_embedding/embeddings"),
    ("embeddings/segment_embedding/embeddings", "GH", "bert/embeddings/token_type_embeddings",
     "bert.embeddings.token_type_embeddings.weight", "segment_embedding/embeddings"),
    ("embeddings/position_embedding/embeddings", "SH", "bert/embeddings/position_embeddings",
     "bert.embeddings.position_embeddings.weight", "position_embedding/embeddings"),
    ("embeddings/layer_norm/gamma", "H", "bert/embeddings/LayerNorm/gamma",
     "bert.embeddings.LayerNorm.weight", "embeddings_layer_norm/gamma"),
    ("embeddings/layer_norm/beta", "H", "bert/embeddings/LayerNorm/beta",
     "bert.embeddings.LayerNorm.bias", "embeddings_layer_norm/beta"),

    ("encoder_block_{i}/attention/query/kernel", "HH", "bert/encoder/layer_{i}/attention/self/query/kernel",
     _t("bert.encoder.layer.{i}.attention.self.query.weight"),
     _as("transformer_layer_{i}/self_attention_layer/query/kernel", "HAD")),
    ("encoder_block_{i}/attention/query/bias", "H", "bert/encoder/layer_{i}/attention/self/query/bias",
     "bert.encoder.layer.{i}.attention.self.query.bias",
     _as("transformer_layer_{i}/self_attention_layer/query/bias", "AD")),
    ("encoder_block_{i}/attention/key/kernel", "HH", "bert/encoder/layer_{i}/attention/self/key/kernel",
     _t("bert.encoder.layer.{i}.attention.self.key.weight"),
     _as("transformer_layer_{i}/self_attention_layer/key/kernel", "HAD")),
    ("encoder_block_{i}/attention/key/bias", "H", "bert/encoder/layer_{i}/attention/self/key/bias",
     "bert.encoder.layer.{i}.attention.self.key.bias",
     _as("transformer_layer_{i}/self_attention_layer/key/bias", "AD")),
    ("encoder_block_{i}/attention/value/kernel", "HH", "bert/encoder/layer_{i}/attention/self/value/kernel",
     _t("bert.encoder.layer.{i}.attention.self.value.weight"),
     _as("transformer_layer_{i}/self_attention_layer/value/kernel", "HAD")),
    ("encoder_block_{i}/attention/value/bias", "H", "bert/encoder/layer_{i}/attention/self/value/bias",
     "bert.encoder.layer.{i}.attention.self.value.bias",
     _as("transformer_layer_{i}/self_attention_layer/value/bias", "AD")),
    ("encoder_block_{i}/attention/output/kernel", "HH", "bert/encoder/layer_{i}/attention/output/dense/kernel",
     _t("bert.encoder.layer.{i}.attention.output.dense.weight"),
     _as("transformer_layer_{i}/self_attention_layer/attention_output/kernel", "ADH")),
    ("encoder_block_{i}/attention/output/bias", "H", "bert/encoder/layer_{i}/attention/output/dense/bias",
     "bert.encoder.layer.{i}.attention.output.dense.bias",
     "transformer_layer_{i}/self_attention_layer/attention_output/bias"),
    ("encoder_block_{i}/attention_layer_norm/gamma", "H", "bert/encoder/layer_{i}/attention/output/LayerNorm/gamma",
     "bert.encoder.layer.{i}.attention.output.LayerNorm.weight",
     "transformer_layer_{i}/self_attention_layer_norm/gamma"),
    ("encoder_block_{i}/attention_layer_norm/beta", "H", "bert/encoder/layer_{i}/attention/output/LayerNorm/beta",
     "bert.encoder.layer.{i}.attention.output.LayerNorm.bias", "transformer_layer_{i}/self_attention_layer_norm/beta"),
    ("encoder_block_{i}/feed_forward/intermediate/kernel", "HF", "bert/encoder/layer_{i}/intermediate/dense/kernel",
     _t("bert.encoder.layer.{i}.intermediate.dense.weight"),
     "transformer_layer_{i}/feedforward_intermediate_dense/kernel"),
    ("encoder_block_{i}/feed_forward/intermediate/bias", "F", "bert/encoder/layer_{i}/intermediate/dense/bias",
     "bert.encoder.layer.{i}.intermediate.dense.bias", "transformer_layer_{i}/feedforward_intermediate_dense/bias"),
    ("encoder_block_{i}/feed_forward/output/kernel", "FH", "bert/encoder/layer_{i}/output/dense/kernel",
     _t("bert.encoder.layer.{i}.output.dense.weight"), "transformer_layer_{i}/feedforward_output_dense/kernel"),
    ("encoder_block_{i}/feed_forward/output/bias", "H", "bert/encoder/layer_{i}/output/dense/bias",
     "bert.encoder.layer.{i}.output.dense.bias", "transformer_layer_{i}/feedforward_output_dense/bias"),
    ("encoder_block_{i}/feed_forward_layer_norm/gamma", "H", "bert/encoder/layer_{i}/output/LayerNorm/gamma",
     "bert.encoder.layer.{i}.output.LayerNorm.weight", "transformer_layer_{i}/feedforward_layer_norm/gamma"),
    ("encoder_block_{i}/feed_forward_layer_norm/beta", "H", "bert/encoder/layer_{i}/output/LayerNorm/beta",
     "bert.encoder.layer.{i}.output.LayerNorm.bias", "transformer_layer_{i}/feedforward_layer_norm/beta"),

    ("pooler/dense/kernel", "HH", "bert/pooler/dense/kernel", _t("bert.pooler.dense.weight"), "pooled_dense/kernel"),
    ("pooler/dense/bias", "H", "bert/pooler/dense/bias", "bert.pooler.dense.bias", "pooled_dense/bias"),

    ("masked_lm_head/transform/kernel", "HH", "cls/predictions/transform/dense/kernel",
     _t("cls.predictions.transform.dense.weight"), "mlm_head/intermediate_dense/kernel"),
    ("masked_lm_head/transform/bias", "H", "cls/predictions/transform/dense/bias",
     "cls.predictions.transform.dense.bias", "mlm_head/intermediate_dense/bias"),
    ("masked_lm_head/layer_norm/gamma", "H", "cls/predictions/transform/LayerNorm/gamma",
     "cls.predictions.transform.LayerNorm.weight", "mlm_head/intermediate_layer_norm/gamma"),
    ("masked_lm_head/layer_norm/beta", "H", "cls/predictions/transform/LayerNorm/beta",
     "cls.predictions.transform.LayerNorm.bias", "mlm_head/intermediate_layer_norm/beta"),
    ("masked_lm_head/output_embeddings", "VH", None, "cls.predictions.decoder.weight", None),
    ("masked_lm_head/output_bias", "V", "cls/predictions/output_bias", "cls.predictions.bias", "mlm_head/output_bias"),
    ("next_sentence_head/dense/kernel", "H2", _t("cls/seq_relationship/output_weights"),
     _t("cls.seq_relationship.weight"), None),
    ("next_sentence_head/dense/bias", "2", "cls/seq_relationship/output_bias", "cls.seq_relationship.bias", None),

    ("classifier_head/dense/kernel", "HN", _t("output_weights"), _t("classifier.weight"), "logits/kernel"),
    ("classifier_head/dense/bias", "N", "output_bias", "classifier.bias", "logits/bias"),
    ("regressor_head/dense/kernel", "H1", _t("output_weights"), _t("classifier.weight"), "logits/kernel"),
    ("regressor_head/dense/bias", "1", "output_bias", "classifier.bias", "logits/bias"),
    ("span_head/dense/kernel", "H2", _t("cls/squad/output_weights"), _t("qa_outputs.weight"), None),
    ("span_head/dense/bias", "2", "cls/squad/output_bias", "qa_outputs.bias", None),
    ("tagger_head/dense/kernel", "HN", None, _t("classifier.weight"), None),
    ("tagger_head/dense/bias", "N", None, "classifier.bias", None),
    ("multiple_choice_head/dense/kernel", "H1", None, _t("classifier.weight"), None),
    ("multiple_choice_head/dense/bias", "1", None, "classifier.bias", None),
)  # fmt: skip


def _row(variable, dims, *places):
    def place(entry):
        name, its_dims, transposed = entry if isinstance(entry, tuple) else (entry, None, False)
        return Place(name, its_dims or (dims[::-1] if transposed else dims), transposed)

    return Row(variable, dims, {f: place(p) for f, p in zip(FAMILIES, places, strict=True) if p is not None})


_ROWS = {entry[0]: _row(*entry) for entry in _TABLE}
_BLOCK = re.compile(r"^encoder_block_(\d+)/")
_NUMBERED = re.compile(r"^(encoder_block|transformer_layer)_\d+(?=/|$)")


def row_of(variable: str) -> Row:
    """The row of a variable, given its path in a kbert model.

    Raises:
        KeyError: a variable that no row describes; a model with one is not of kbert's own classes.

    Example::

        row_of("encoder_block_3/attention/query/bias").places["google"].name
        # "bert/encoder/layer_3/attention/self/query/bias"
    """
    block = _BLOCK.match(variable)
    row = _ROWS.get(_BLOCK.sub("encoder_block_{i}/", variable)) or _row_of_a_task(variable)
    if block is None:
        return row
    places = {f: dataclasses.replace(p, name=p.name.format(i=block[1])) for f, p in row.places.items()}
    return dataclasses.replace(row, variable=variable, places=places)


def _row_of_a_task(variable):
    """The row of a variable that only the task which has it describes."""
    for task in task_names():
        if variable in (of_task := task_pipeline(task).head_variables):
            return Row(variable, of_task[variable], {})
    raise KeyError(variable)


def encoder_variables(config: BertConfig, pooler: bool = True) -> list[str]:
    """The paths of an encoder's variables, without building it."""
    names = []
    blocks = block_variables()
    for name in _ROWS:
        if name == blocks[0]:
            names += [block.format(i=i) for i in range(config.num_layers) for block in blocks]
        elif name.startswith("embeddings/") or (pooler and name.startswith("pooler/")):
            names.append(name)
    return names


def without_number(layer: str) -> str:
    """The path of a layer in kbert or KerasHub, with ``{i}`` in place of the number of the block it is in."""
    return _NUMBERED.sub(r"\1_{i}", layer)


def layer_variables(family: str) -> dict[str, list[str]]:
    """Path of each layer (as `without_number` gives it) → names of its variables, in the order in which it holds them.

    Args:
        family: "kbert" or "kerashub", whose layers are Keras'.
    """
    layers: dict[str, list[str]] = {}
    for row in _ROWS.values():
        place = row.place(family)
        if place is not None:
            layer, _, variable = place.name.rpartition("/")
            if variable not in layers.setdefault(layer, []):
                layers[layer].append(variable)
    return layers


def block_variables() -> list[str]:
    """The paths of the variables of one block, with ``{i}`` in place of its number."""
    return [name for name in _ROWS if name.startswith("encoder_block_")]


def heads_of(task: str) -> tuple[str, ...]:
    """The layers, first parts of the paths, that a model of this task has beside its encoder."""
    return task_pipeline(task).heads


def head_variables(task: str) -> list[str]:
    """The paths of the variables of a task's heads, the table of an untied decoder among them."""
    return [name for name in _ROWS if name.split("/")[0] in heads_of(task)] + list(task_pipeline(task).head_variables)


def sizes_of(config: BertConfig, num_labels: int | None = None) -> dict[str, int]:
    """What the letters of the shapes stand for in a model of this config."""
    sizes = {
        "V": config.vocabulary_size,
        "S": config.max_sequence_length,
        "G": config.num_segments,
        "H": config.hidden_dim,
        "F": config.intermediate_dim,
        "A": config.num_heads,
        "D": config.head_dim,
        "1": 1,
        "2": 2,
    }
    return sizes if num_labels is None else {**sizes, "N": num_labels}
