"""Checks that the inputs of a model are a batch with its keys."""

import keras

_HUGGING_FACE = {"input_ids": "token_ids", "attention_mask": "padding_mask", "token_type_ids": "segment_ids"}


def check_inputs(model, inputs) -> None:
    """Raises ValueError for strings and for keys that are missing or surplus; names Hugging Face's words for them."""
    if any(map(_is_text, keras.tree.flatten(inputs))):
        raise ValueError(
            f"{type(model).__name__}: expected a batch of numbers with the keys {sorted(model.input)}. Received: "
            "strings, which kbert.build_pipeline(model) takes"
        )
    if not isinstance(inputs, dict):
        return
    missing, surplus = model.input.keys() - inputs.keys(), inputs.keys() - model.input.keys()
    if missing or surplus:
        theirs = [f"{name} is {_HUGGING_FACE[name]} here" for name in sorted(surplus) if name in _HUGGING_FACE]
        raise ValueError(
            f"{type(model).__name__}: expected a batch with the keys {sorted(model.input)}. "
            f"Received: {sorted(inputs)} (missing: {sorted(missing)}, not taken by this model: {sorted(surplus)})"
            + (f". Hugging Face's {', '.join(theirs)}" if theirs else "")
        )


def _is_text(value):
    dtype = getattr(value, "dtype", "")
    return isinstance(value, str | bytes) or getattr(dtype, "kind", "") in ("U", "S", "O") or "string" in str(dtype)
