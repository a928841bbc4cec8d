"""What settings.json of a run has."""

import dataclasses
import inspect
from collections.abc import Callable

from kbert.options import Options, is_recorded


def recorded_names(function: Callable) -> set[str]:
    """The names of a verb's options, those of groups by their own, that are not marked `NOT_RECORDED`."""
    names = set()
    for name, parameter in inspect.signature(function).parameters.items():
        if isinstance(parameter.default, Options):
            names |= {field.name for field in dataclasses.fields(parameter.default)}
        elif is_recorded(parameter.annotation):
            names.add(name)
    return names
