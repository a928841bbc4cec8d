"""What a model is called on: a batch, whose mask and segments may be left out."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel


OPTIONAL = ("padding_mask", "segment_ids")  # which a batch need not have: they follow from its token ids
_HUGGING_FACE = {"input_ids": "token_ids", "attention_mask": "padding_mask", "token_type_ids": "segment_ids"}


def complete_inputs(model: "BertModel", inputs: Any) -> Any:
    """A batch with the mask and the segments that it lacks. Token ids without a dict are such a batch.

    The mask is True at every token but [PAD] (`BertConfig.pad_token_id`). All tokens are of segment 0. Shapes are those
    of the token ids, static where these are.
    """
    inputs = checked_inputs(model, inputs)
    if hasattr(inputs, "shape"):
        inputs = {"token_ids": inputs}
    if not isinstance(inputs, dict):
        return inputs
    if not (missing := [name for name in OPTIONAL if name in model.input and name not in inputs]):
        return inputs
    to_tensor = keras.ops.convert_to_tensor  # of all: Keras refuses arrays beside tensors
    inputs = {name: to_tensor(value) if isinstance(value, np.ndarray) else value for name, value in inputs.items()}
    token_ids = inputs["token_ids"]
    if "padding_mask" in missing:
        inputs["padding_mask"] = keras.ops.not_equal(token_ids, model.config.pad_token_id)
    if "segment_ids" in missing:
        inputs["segment_ids"] = keras.ops.zeros_like(token_ids, dtype="int32")
    return inputs


def lists_to_arrays(values: Any, outputs: int = 1) -> Any:
    """Lists of numbers, of lists or of arrays as arrays, also in a dict. Keras reads a list as one entry an output.

    So a list of as many arrays as the model has `outputs` is left to Keras.
    """
    if isinstance(values, dict):
        return {name: lists_to_arrays(value, 0) for name, value in values.items()}
    if not isinstance(values, list) or not values or isinstance(values[0], dict | keras.KerasTensor | str):
        return values
    if len(values) == outputs and any(len(getattr(value, "shape", ())) for value in values):
        return values
    if any(keras.ops.is_tensor(value) for value in values):
        return keras.ops.stack(values)
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(
            "Expected rows of one length: fill shorter ones up, token ids with that of [PAD], and pass several inputs "
            "as a dict. "
            f"Received: rows of {sorted({np.size(row) for row in values})[:5]} numbers"
        ) from None


def checked_inputs(model: "BertModel", inputs: Any) -> Any:
    """The inputs of a model, lists as arrays. A dataset is returned as it is.

    Raises:
        ValueError: strings, missing or surplus keys (Hugging Face's words for them are known), or arrays of other
            dimensions. In NumPy arrays and lists, ids outside their table.
    """
    inputs = lists_to_arrays(inputs, 0)
    if any(map(_is_text, keras.tree.flatten(inputs))):
        raise ValueError(
            f"{type(model).__name__}: expected a batch of numbers with the keys {sorted(model.input)}. Received: "
            "strings, which kbert.build_pipeline(model) takes"
        )
    named = {"token_ids": inputs} if hasattr(inputs, "shape") else inputs
    if not isinstance(named, dict):
        return inputs
    missing = model.input.keys() - named.keys() - {*OPTIONAL}
    surplus = named.keys() - model.input.keys()
    if missing or surplus:
        theirs = [f"{name} is {_HUGGING_FACE[name]} here" for name in sorted(surplus) if name in _HUGGING_FACE]
        raise ValueError(
            f"{type(model).__name__}: expected a batch with the keys {sorted(model.input)}, of which {OPTIONAL} may be "
            f"left out. Received: {sorted(named)} (missing: {sorted(missing)}, not taken by this model: "
            f"{sorted(surplus)})" + (f". Hugging Face's {', '.join(theirs)}" if theirs else "")
        )
    for name, values in named.items():
        _check_shape(model, name, values)
    arrays = {name: values for name, values in named.items() if isinstance(values, np.ndarray)}
    for expected, ids, outside in ids_outside(model, arrays):
        if outside.any():
            row, *_, position = np.argwhere(outside)[0].tolist()
            raise ValueError(f"{expected} {ids[outside][0]} in row {row}, position {position}")
    return inputs


def ids_outside(model: "BertModel", inputs: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yields (message, ids, bools: which have no row in their table) for the ids among a model's inputs."""
    config = model.config
    sizes = {
        "token_ids": config.vocabulary_size,
        "segment_ids": config.num_segments,
        "position_ids": config.max_sequence_length,
    }
    for name, size in sizes.items():
        if name in inputs:
            pad = f", where {config.pad_token_id} is [PAD]" if name == "token_ids" else ""
            message = f"{type(model).__name__}: `{name}` must be from 0 to {size - 1}{pad}. Received:"
            yield message, inputs[name], (inputs[name] < 0) | (inputs[name] >= size)


def _check_shape(model, name, values):
    shape, rank = getattr(values, "shape", None), len(model.input[name].shape)
    is_ragged = hasattr(values, "row_splits")
    if is_ragged or (shape is not None and getattr(shape, "rank", 0) is not None and len(shape) != rank):
        raise ValueError(
            f"{type(model).__name__}: `{name}` must be a dense array of {rank} dimensions. Received: "
            f"{'a RaggedTensor' if is_ragged else f'an array of shape {tuple(shape)}'}. Pass several inputs as a dict "
            f"with the keys {sorted(model.input)}, a single row as [row], and rows of unequal lengths padded with "
            f"{model.config.pad_token_id}"
        )


def _is_text(value):
    dtype = getattr(value, "dtype", "")
    return isinstance(value, str | bytes) or getattr(dtype, "kind", "") in ("U", "S", "O") or "string" in str(dtype)
