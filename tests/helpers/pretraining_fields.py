"""The fields of the settings of a pre-training."""

import dataclasses
import inspect

import kbert
from kbert.pretraining.run.pretraining_settings import PretrainingSettings


def pretraining_fields(**given) -> dict:
    """Arguments of `PretrainingSettings` as `kbert.pretrain` gives them, by default of a text."""
    parameters = inspect.signature(kbert.pretrain).parameters
    names = {field.name for field in dataclasses.fields(PretrainingSettings)} - {"source"}
    return {name: parameters[name].default for name in names} | {"source": "a.txt", "vocabulary": "vocab.txt"} | given
