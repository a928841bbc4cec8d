"""Reads entries of JSON objects in checkpoints and checks their types."""

import reprlib
from typing import Any

_NAMES = {dict: "an object", list: "a list", bool: "true or false", int: "an integer", str: "a string"}


def entry(content: dict[str, Any], key: str, kind: type, source, default=None) -> Any:
    """An entry of an object; `default` if it is missing or null."""
    value = content.get(key)
    if value is None:
        return default
    if type(value) is not kind:
        raise ValueError(f"{source}: `{key}` must be {_NAMES[kind]}. Received: {reprlib.repr(value)}")
    return value
