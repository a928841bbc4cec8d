"""LoRA on a model's encoder: switching it on, merging it, and which layers have it, as plain data.

Shapes: H hidden, u units of a layer, r rank.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbert.checks import check_option
from kbert.keras_compat import all_layers
from kbert.layers.lora_dense import LoraDense
from kbert.models.copies import copy_model
from kbert.models.trainability import set_trainable
from kbert.options import Count, Positive

if TYPE_CHECKING:
    import keras

    from kbert.models.bert_model import BertModel


TARGETS = ("query", "key", "value", "attention/output", "intermediate", "feed_forward/output")


def enable_lora(
    model: "BertModel", rank: int, alpha: float | None = None, layers: str | Sequence[str] = ("query", "value")
) -> None:
    """`BertModel.enable_lora`; `layers` are some of `TARGETS`, in every block."""
    caller = f"{type(model).__name__}.enable_lora"
    rank = check_option(caller, "rank", rank, Count)
    alpha = check_option(caller, "alpha", alpha, Positive | None)
    layers = (layers,) if isinstance(layers, str) else tuple(layers)
    if not layers or set(layers) - set(TARGETS):
        raise ValueError(f"{caller}: `layers` must be some of {TARGETS}. Received: {layers}")
    if lora_layers(model):
        raise ValueError(f"{caller}: this model has LoRA already. Call `merge_lora()` before another.")
    ends = tuple(f"/{name}" for name in layers)
    chosen = [layer for layer in dense_layers(model) if layer.path.endswith(ends)]
    if any(layer.quantization_mode is not None for layer in chosen):
        raise ValueError(f"{caller}: LoRA needs float weights. Received: a quantised model.")
    set_trainable(model.encoder, True)  # matrices of a frozen layer would be frozen, too
    freeze_encoder(model)
    for layer in chosen:
        layer.enable_lora(rank, alpha)


def freeze_encoder(model: "BertModel") -> None:
    """Freezes each variable of the encoder. The matrices that LoRA adds to its layers are trainable."""
    for variable in model.encoder.weights:
        variable.trainable = False


def lora_layers(model: "keras.Model") -> dict[str, list]:
    """Path of each layer with LoRA → [rank, alpha]."""
    return {layer.path: [layer.lora_rank, layer.lora_alpha] for layer in dense_layers(model) if layer.lora_enabled}


def add_lora(model: "BertModel", layers: dict[str, list]) -> None:
    """Gives a newly built model the low-rank matrices that `lora_layers` names. What is trainable does not change."""
    by_path = {layer.path: layer for layer in dense_layers(model)}
    for path, (rank, alpha) in layers.items():
        if path not in by_path:
            raise ValueError(f"`lora_layers`: the model has no layer {path!r} that can have LoRA.")
        if not by_path[path].lora_enabled:  # otherwise it came with the encoder
            by_path[path].enable_lora(rank, alpha)


def merge_lora(model: "BertModel") -> None:
    """Adds LoRA's matrices to the kernels and removes them. The whole encoder is trainable again."""
    layers = [layer for layer in dense_layers(model) if layer.lora_enabled]
    for layer in layers:
        layer.merge_lora()
    if layers:
        set_trainable(model.encoder, True)


def merged(model: "BertModel") -> "BertModel":
    """The model itself, or for a model with LoRA a copy in which it is merged."""
    if not lora_layers(model):
        return model
    copy = copy_model(model)
    merge_lora(copy)
    return copy


def dense_layers(model: "keras.Model") -> list[LoraDense]:
    """The layers of a model that can have LoRA."""
    return [layer for layer in all_layers(model, include_self=False) if isinstance(layer, LoraDense)]
