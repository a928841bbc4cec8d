"""The settings of a pre-training, as `kbert.pretrain` completes them."""

import kbert
from kbert.pretraining.run.pretraining_settings import PretrainingSettings


def pretraining_fields(**given) -> dict:
    """Arguments of `pretraining_settings`, by default of a text."""
    return {"source": "a.txt", "vocabulary": "vocab.txt"} | given


def pretraining_settings(source, **arguments) -> PretrainingSettings:
    """What `kbert.pretrain` makes of these arguments."""
    return PretrainingSettings(kbert.pretrain.arguments(source, **arguments), source)
