"""Which layers of a model are quantised, as plain data."""

import reprlib
from typing import TYPE_CHECKING, Any

from kbert.keras_compat import all_layers

if TYPE_CHECKING:
    import keras


def quantized_layers(model: "keras.Model") -> dict[str, str]:
    """Path of each quantised layer → "int8"."""
    return {
        layer.path: layer.quantization_mode
        for layer in all_layers(model, include_self=False)
        if getattr(layer, "quantization_mode", None) is not None
    }


def quantize_layers(model: "keras.Model", modes: dict[str, str]) -> None:
    """Quantises the layers of a model that `quantized_layers` names."""
    layers = {layer.path: layer for layer in all_layers(model, include_self=False)}
    for path in modes:
        if not hasattr(layers.get(path), "quantization_mode"):
            raise ValueError(f"`quantized_layers`: the model has no layer {path!r} that can be quantised.")
    for path, mode in modes.items():
        if layers[path].quantization_mode != mode:
            layers[path].quantize(mode)


def check_not_quantized(model: "keras.Model") -> None:
    """Raises ValueError for a quantised model: no gradient reaches its int8 kernels, so it cannot be trained."""
    if quantized_layers(model):
        raise ValueError(
            f"{type(model).__name__}: training needs float weights. Received: a quantised model. Train first, and "
            "quantise the result."
        )


def check_quantized(modes: Any) -> None:
    """Raises ValueError if something is not a dict of paths → "int8"."""
    if not isinstance(modes, dict) or any(mode != "int8" for mode in modes.values()):
        raise ValueError(
            '`quantized_layers` must be an object of paths and "int8", the only mode that kbert has. '
            f"Received: {reprlib.repr(modes)}"
        )
