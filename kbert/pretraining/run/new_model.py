"""The new model that a pre-training starts from."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import keras

from kbert.config import BertConfig
from kbert.layers.sinusoidal_positions import SinusoidalPositions
from kbert.models.pretrainer import BertPretrainer
from kbert.text.vocabulary import PAD

if TYPE_CHECKING:
    from kbert.pretraining.run.pretraining_settings import PretrainingSettings


def new_model(settings: "PretrainingSettings", vocabulary: Sequence[str]) -> BertPretrainer:
    """A `BertPretrainer` with new weights, as the `PretrainingSettings` say."""
    size = settings.size or "tiny"
    changes = dropout_of(settings)
    if settings.initializer_stddev == "scaled":  # sums over the width of this size vary as base's
        width = BertConfig.from_size(size).hidden_dim
        changes["initializer_stddev"] = 0.02 * math.sqrt(BertConfig().hidden_dim / width)
    elif settings.initializer_stddev is not None:
        changes["initializer_stddev"] = settings.initializer_stddev
    config = BertConfig.from_size(
        size,
        vocabulary_size=len(vocabulary),
        pad_token_id=vocabulary.index(PAD),
        causal=settings.left_to_right,
        pooled_token="last" if settings.left_to_right else "first",
        position_embedding=settings.position_embedding or "learned",
        max_sequence_length=max(512, settings.sequence_length),
        **changes,
    )
    model = BertPretrainer(config, next_sentence=settings.next_sentence)
    if settings.position_initializer == "sinusoidal":
        table = model.encoder.embeddings.position_embedding.embeddings
        waves = SinusoidalPositions(config.hidden_dim, config.initializer_stddev, dtype="float32")
        table.assign(waves(keras.ops.arange(config.max_sequence_length)))
    return model


def dropout_of(settings: "PretrainingSettings") -> dict[str, float]:
    """Fields of `BertConfig` for the `dropout` that was given, if one was."""
    return {} if settings.dropout is None else dict.fromkeys(("hidden_dropout", "attention_dropout"), settings.dropout)
