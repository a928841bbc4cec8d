"""The encoder of a task model, and the linear layer on it."""

from collections.abc import Sequence

import keras

from kbert.config import BertConfig
from kbert.layers.task_head import TaskHead
from kbert.models.bert_model import BertModel
from kbert.models.encoder import BertEncoder


def resolve_encoder(
    config_or_encoder: BertConfig | BertModel,
    dtype: str | dict | keras.DTypePolicy | None = None,
    num_parts: int | None = None,
    needs: Sequence[str] = (),
) -> BertModel:
    """The encoder of a task model: the one given, which is shared, or a new one with this config.

    A `BertModel` of the task "encoder" is a `BertEncoder`, or layers on one. `needs` are the outputs that the task
    reads. `dtype` and `num_parts` are for a new encoder.
    """
    if isinstance(config_or_encoder, BertConfig):
        return BertEncoder(
            config_or_encoder, outputs=needs, num_parts=num_parts, pooler="pooled_output" in needs, dtype=dtype
        )
    if not isinstance(config_or_encoder, BertModel) or config_or_encoder.task != "encoder":
        raise TypeError(f"Expected a BertConfig or a BertEncoder. Received: {config_or_encoder!r}")
    encoder = config_or_encoder
    lacking = [name for name in needs if name not in encoder.output]
    if lacking:
        raise ValueError(
            f"This model reads {list(needs)} from its encoder. Received: an encoder without {lacking}. "
            f"Build it with BertEncoder(config, outputs={tuple(needs)})."
        )
    if num_parts is not None and num_parts != encoder.num_parts:
        raise ValueError(
            f"`num_parts` belongs to the encoder. Received: num_parts={num_parts} and an encoder built with "
            f"num_parts={encoder.num_parts}"
        )
    if dtype is not None and keras.dtype_policies.get(dtype) != encoder.dtype_policy:
        raise ValueError(
            f"`dtype` belongs to the encoder. Received: dtype={dtype!r} and an encoder with "
            f"{encoder.dtype_policy.name!r}"
        )
    return encoder


def new_head(encoder: BertModel, units: int, name: str, dropout: float = 0.0) -> TaskHead:
    """A new linear layer, initialised like the encoder."""
    stddev = encoder.config.initializer_stddev
    return TaskHead(units, dropout, stddev, dtype=encoder.dtype_policy, name=name)
