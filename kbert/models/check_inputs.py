"""What a model is called on: a batch, whose mask and segments may be left out."""

from typing import TYPE_CHECKING, Any

import keras
import numpy as np

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel


OPTIONAL = ("padding_mask", "segment_ids")  # which a batch need not have: they follow from its token ids
_HUGGING_FACE = {"input_ids": "token_ids", "attention_mask": "padding_mask", "token_type_ids": "segment_ids"}


def complete_inputs(model: "BertModel", inputs: Any) -> Any:
    """A batch with the mask and the segments that it lacks. Token ids without a dict are such a batch.

    The mask is True at every token but [PAD], which has the id 0 unless the model was loaded with a tokenizer that says
    otherwise. All tokens are of segment 0. Shapes are those of the token ids, static where these are.
    """
    inputs = lists_to_arrays(inputs)
    if hasattr(inputs, "shape"):
        inputs = {"token_ids": inputs}
    if not isinstance(inputs, dict) or "token_ids" not in inputs or _is_text(inputs["token_ids"]):
        return inputs
    if not (missing := [name for name in OPTIONAL if name in model.input and name not in inputs]):
        return inputs
    to_tensor = keras.ops.convert_to_tensor  # of all: Keras refuses arrays beside tensors
    inputs = {name: to_tensor(value) if isinstance(value, np.ndarray) else value for name, value in inputs.items()}
    token_ids = inputs["token_ids"]
    if "padding_mask" in missing:
        inputs["padding_mask"] = keras.ops.not_equal(token_ids, _pad_id(model))
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
            "Expected rows of one length: fill shorter ones up, token ids with that of [PAD]. "
            f"Received: rows of {sorted({np.size(row) for row in values})[:5]} numbers"
        ) from None


def check_inputs(model: "BertModel", inputs: Any) -> None:
    """Raises ValueError for strings, and for missing or surplus keys. It knows Hugging Face's words for them."""
    if any(map(_is_text, keras.tree.flatten(inputs))):
        raise ValueError(
            f"{type(model).__name__}: expected a batch of numbers with the keys {sorted(model.input)}. Received: "
            "strings, which kbert.build_pipeline(model) takes"
        )
    if not isinstance(inputs, dict):
        return
    missing = model.input.keys() - inputs.keys() - {*OPTIONAL}
    surplus = inputs.keys() - model.input.keys()
    if missing or surplus:
        theirs = [f"{name} is {_HUGGING_FACE[name]} here" for name in sorted(surplus) if name in _HUGGING_FACE]
        raise ValueError(
            f"{type(model).__name__}: expected a batch with the keys {sorted(model.input)}, of which {OPTIONAL} may be "
            f"left out. Received: {sorted(inputs)} (missing: {sorted(missing)}, not taken by this model: "
            f"{sorted(surplus)})" + (f". Hugging Face's {', '.join(theirs)}" if theirs else "")
        )


def _pad_id(model):
    tokenizer = None if model.pretrained is None else model.pretrained.tokenizer
    return 0 if tokenizer is None else tokenizer.pad_id


def _is_text(value):
    dtype = getattr(value, "dtype", "")
    return isinstance(value, str | bytes) or getattr(dtype, "kind", "") in ("U", "S", "O") or "string" in str(dtype)
