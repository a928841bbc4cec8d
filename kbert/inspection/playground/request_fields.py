"""The fields of a question, each checked as it is read."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

_SHOWN = 60  # characters of a wrong value in a message
_LARGEST = 2**63 - 1  # of TensorFlow's int64


class BadRequest(ValueError):
    """A question that cannot be answered; the message is a sentence for the user."""


class RequestFields:
    """The JSON object of a question, of which only `known` fields and ``model`` are allowed."""

    def __init__(self, values: Any, known: Sequence[str]):
        if not isinstance(values, Mapping):
            raise BadRequest(f"Expected a JSON object. Received: {_shown(values)}")
        known = ("model", *known)
        if unknown := sorted(set(values) - set(known)):
            raise BadRequest(f"Expected the fields {', '.join(known)}. Received: {_shown(unknown[0])}")
        self._values = values

    def model(self) -> str | None:
        """The name of the model that is asked; None: no model."""
        return self.optional_text("model")

    def text(self, name: str) -> str:
        value = self.optional_text(name)
        if value is None:
            raise BadRequest(f"`{name}`: expected a string. Received: nothing")
        return value

    def optional_text(self, name: str) -> str | None:
        """A string, or None where there is none."""
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise BadRequest(f"`{name}`: expected a string. Received: {_shown(value)}")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise BadRequest(
                f"`{name}`: expected text. Received: half of a surrogate pair at character {error.start}"
            ) from None
        return value

    def choice(self, name: str, choices: Sequence[str]) -> str | None:
        """One of several strings, or None where there is none."""
        value = self.optional_text(name)
        if value is not None and value not in choices:
            raise BadRequest(f"`{name}`: expected {' or '.join(choices)}. Received: {_shown(value)}")
        return value

    def boolean(self, name: str, default: bool) -> bool:
        value = self._given(name, default)
        if not isinstance(value, bool):
            raise BadRequest(f"`{name}`: expected true or false. Received: {_shown(value)}")
        return value

    def share(self, name: str, default: float) -> float:
        """A number in [0, 1]."""
        value = self._given(name, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= 1:
            raise BadRequest(f"`{name}`: expected a number from 0 to 1. Received: {_shown(value)}")
        return float(value)

    def integer(self, name: str, default: int | None, low: int = -_LARGEST, high: int = _LARGEST) -> int | None:
        """A whole number in [low, high]; None only where that is the default."""
        value = self._given(name, default)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise BadRequest(f"`{name}`: expected a whole number from {low:,} to {high:,}. Received: {_shown(value)}")
        return value

    def _given(self, name, default):
        value = self._values.get(name)
        return default if value is None else value


def first_line(error: Exception) -> str:
    """The message of one of kbert's errors, for the user."""
    return (str(error).splitlines() or [type(error).__name__])[0][:500]


def _shown(value):
    try:
        text = json.dumps(value)
    except ValueError:  # Python refuses numbers of thousands of digits
        text = type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
