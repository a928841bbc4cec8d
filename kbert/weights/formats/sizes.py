"""Compares the sizes in a config with the shapes in the file of weights, before anything is built."""

import dataclasses
import math
import reprlib
from collections.abc import Collection, Mapping

from kbert.config import BertConfig
from kbert.pipelines.settings import ModelSettings
from kbert.weights.description import ModelDescription
from kbert.weights.formats.name_table import NameTable
from kbert.weights.formats.variables import (
    block_variables,
    encoder_variables,
    head_variables,
    heads_of,
    sizes_of,
    variable_shape,
)

_MOST = 4096  # limit of a count, if the position table is shorter
_SHOWN_BY = {  # field → the variable whose shape shows it, and the letter there
    "vocabulary_size": ("embeddings/token_embedding/embeddings", "V"),
    "hidden_dim": ("embeddings/token_embedding/embeddings", "H"),
    "num_segments": ("embeddings/segment_embedding/embeddings", "G"),
    "max_sequence_length": ("embeddings/position_embedding/embeddings", "S"),
    "intermediate_dim": ("encoder_block_0/feed_forward/intermediate/bias", "F"),
    "num_heads": ("encoder_block_0/attention/query/bias", "A"),  # if a format has a separate axis of heads
}
SIZES = ("num_layers", *_SHOWN_BY)


def check_sizes(
    description: ModelDescription,
    names: NameTable,
    shapes: Mapping[str, tuple[int, ...]],
    fields: Mapping[str, str],
    source: str,
    weights: str,
) -> None:
    """Compares every size in the config with the weights; `check_variables` then looks for missing weights.

    `shapes` has the tensors in the file by the format's standard names, `fields` the config's names of kbert's sizes.
    `source` and `weights` are the two files, for messages.
    """
    config, num_labels = description.config, description.arguments.get("num_labels")
    stated = {name: getattr(config, name) for name in _SHOWN_BY}
    shown = dict(_SHOWN_BY)
    if num_labels is not None:
        stated["num_labels"] = num_labels
        shown["num_labels"] = f"{heads_of(description.task)[0]}/dense/kernel", "N"
    for field, (variable, letter) in shown.items():
        tensor = names.find(variable)
        shape = None if tensor is None else shapes.get(tensor.name)
        if shape is not None and letter in tensor.dims and len(shape) == len(tensor.dims):
            size = shape[tensor.dims.index(letter)]
            if size != stated[field]:
                raise ValueError(
                    f"{source}: `{fields[field]}` is {stated[field]}, but {weights} has {size} "
                    f"({tensor.name} of shape {shape})."
                )
    blocks = _count_blocks(names, shapes)
    if config.num_layers > blocks:
        raise ValueError(f"{source}: `{fields['num_layers']}` is {config.num_layers}, but {weights} has {blocks}.")


def check_variables(
    description: ModelDescription, pooler: bool, names: NameTable, tensors: Mapping, source: str, heads: bool = False
) -> None:
    """Checks that the weights are whole, of the config's shapes, and floating-point numbers.

    `tensors` has the `TensorInfo` of each standard name. `heads`: whether the heads must be there too.
    """
    sizes = sizes_of(description.config, description.arguments.get("num_labels"))
    encoder = dict.fromkeys(encoder_variables(description.config, pooler))
    missing, misshapen, integers = [], [], []
    for variable in (*encoder, *_head_variables(description)):
        tensor = names.find(variable)
        info = None if tensor is None else tensors.get(tensor.name)
        if info is None:
            if heads or variable in encoder:
                missing.append(variable if tensor is None else f"{variable} (there: {tensor.name})")
        elif info.shape != tensor.shape(sizes):
            misshapen.append(f"{tensor.name}: expected {tensor.shape(sizes)}. Received: {info.shape}")
        elif "float" not in info.dtype and variable.rpartition("/")[0] not in description.quantized_layers:
            integers.append(f"{tensor.name} ({info.dtype})")
    if missing:
        raise ValueError(
            f"{source} lacks {len(missing)} variables of the {'model' if heads else 'encoder'}: {_some(missing)}. "
            f"It holds {_some(sorted(tensors))}"
        )
    if misshapen:
        raise ValueError(f"{source}: shapes that do not fit the config beside it: {_some(misshapen)}")
    if integers:
        raise ValueError(
            f"{source}: weights that are integers: {_some(integers)}. A quantised model has to be converted back to "
            "float32, float16 or bfloat16 first."
        )


def _head_variables(description):
    untied = description.arguments.get("tied") is False
    names = head_variables(description.task)
    return [name for name in names if untied or not name.endswith("/output_embeddings")]


def check_settings(settings: ModelSettings, description: ModelDescription, given: Collection[str] = ()) -> None:
    """Compares settings with the model, and bounds the sizes that take memory but do not show in the weights.

    `given` names the settings that were given and are not as stored (see `kbert.tasks.Task.check_options`).
    """
    config, task = description.config, settings.task
    counts = {name: value for name, value in task.options().items() if type(value) is int}
    most = dict.fromkeys(counts, max(config.max_sequence_length, _MOST)) | task.bounds(config)
    counts["sequence_length"] = settings.sequence_length
    most["sequence_length"] = config.max_sequence_length
    parts = (description.encoder_arguments or description.arguments).get("num_parts")
    if parts is not None:
        most, counts = most | {"num_parts": config.max_sequence_length}, counts | {"num_parts": parts}
    for name, bound in most.items():
        if counts[name] > bound:
            raise ValueError(f"`{name}` must be at most {bound}. Received: {reprlib.repr(counts[name])}")
    number = description.arguments.get("num_labels")
    for name in ("labels", "thresholds"):
        values = getattr(task, name)
        if None not in (values, number) and len(values) != number:
            raise ValueError(
                f"expected {number} {name}, as many as the model has logits (num_labels). Received: {list(values)}"
            )
    if task.thresholds is not None and not description.arguments.get("multi_label"):
        raise ValueError(
            f"`thresholds` are a multi-label classifier's (multi_label=True). Received: {list(task.thresholds)}"
        )
    task.check_options(given)


def check_vocabulary_size(owner: str, tokenizer, config: BertConfig) -> None:
    """Raises ValueError unless a tokenizer has a token for each row of the model's table."""
    if tokenizer.vocabulary_size != config.vocabulary_size:
        raise ValueError(
            f"{owner}: the vocabulary must have as many tokens as the model's table has rows "
            f"({config.vocabulary_size}). Received: {tokenizer.vocabulary_size} tokens"
        )


def check_sequence_length(owner: str, length: int, config: BertConfig) -> None:
    """Raises ValueError for rows that are longer than the model's position table."""
    if length > config.max_sequence_length:
        raise ValueError(
            f"{owner}: `sequence_length` must be at most the model's position table, {config.max_sequence_length}. "
            f"Received: {length}"
        )


def parameters_of(config: BertConfig) -> int:
    """The number of parameters of an encoder with pooler; nothing is built for it."""
    sizes = sizes_of(config)

    def size(variable):
        return math.prod(variable_shape(variable, sizes))

    block = sum(size(name.format(i=0)) for name in block_variables())
    one_layer = encoder_variables(dataclasses.replace(config, num_layers=1))
    return (config.num_layers - 1) * block + sum(map(size, one_layer))


def _count_blocks(names, shapes):
    """Blocks 0, 1, … that have a variable."""
    count = 0
    while any(_is_there(names, name.format(i=count), shapes) for name in block_variables()):
        count += 1
    return count


def _is_there(names, variable, shapes):
    tensor = names.find(variable)
    return tensor is not None and tensor.name in shapes


def _some(items, most=4):
    return ", ".join(items[:most]) + (f" … ({len(items)} in all)" if len(items) > most else "")
