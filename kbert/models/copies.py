"""Copies of a model: one to be trained without changing it, and one in another precision."""

from typing import TYPE_CHECKING

import keras

from kbert.models.quantized_layers import quantized_layers

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel


PRECISIONS = ("float32", "bfloat16")


def copy_model(model: "BertModel") -> "BertModel":
    """A model of the same architecture and weights that shares nothing with the given one and is not compiled."""
    copy = _rebuild(model, model.get_config())
    for block, original in zip(copy.encoder.blocks, model.encoder.blocks, strict=True):
        block.rematerialize = original.rematerialize  # which is no part of an architecture
    return copy


def in_precision(model: "BertModel", precision: str) -> "BertModel":
    """A copy of a model without LoRA whose weights are stored, and computed with, in another precision, for inference.

    LayerNorm's statistics, the softmax of the attention and the scores stay in float32. (For training, weights stay in
    float32 too: that is the dtype policy ``mixed_bfloat16``.)
    """
    if precision not in PRECISIONS:
        raise ValueError(f"`precision` must be one of {PRECISIONS}. Received: {precision!r}")
    if quantized_layers(model):
        raise ValueError(f"`precision`: a quantised model cannot be converted. Received: precision={precision!r}")
    config = model.get_config()
    encoder = config["encoder"]["config"] if "encoder" in config else config
    encoder["dtype"] = keras.dtype_policies.serialize(keras.dtype_policies.get(precision))
    return _rebuild(model, config)


def _rebuild(model, config):
    """A model of a config with the weights of another."""
    copy = type(model).from_config(config)
    copy.set_weights(model.get_weights())
    return copy
