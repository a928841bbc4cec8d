"""Checks that many arguments need; `owner` and `name` are those of the argument, for the message."""

import dataclasses
import inspect
import logging
import math
import numbers
import os
import pathlib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The interval in which a number lies, such as "[0, 1)"."""

    interval: str


def check_option(owner: str, name: str, value: Any, annotation: Any) -> Any:
    """Checks an option's value and converts it to the annotated type, such as 2 to 2.0 for a float.

    An annotation is a type, `Annotated` with `Bounds`, a `Literal`, a union, or a tuple, list or dict of these. With
    other annotations, such as a class in quotes, all values but numbers pass unchanged.

    Returns:
        The converted value.

    Raises:
        ValueError: the value does not fit. The message names `owner`, `name` and the type.
    """
    try:
        return _convert(value, annotation)
    except _Unfit:
        must_be = f"`{name}` must be {describe_type(annotation)}"
        raise ValueError(f"{owner}: {must_be}. Received: {shown(value)}") from None


class _Unfit(Exception):
    """A value is not of the type."""


def _convert(value: Any, annotation: Any) -> Any:
    """The value in the type; `_Unfit` if it is not of the type."""
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is Annotated:
        value = _convert(value, arguments[0])
        for bounds in arguments[1:]:
            if isinstance(bounds, Bounds) and not _is_within(value, bounds.interval):
                raise _Unfit
        return value
    if origin in (typing.Union, types.UnionType):
        return _convert_to_one_of(value, arguments)
    if origin is Literal:
        if not any(type(value) is type(choice) and value == choice for choice in arguments):
            raise _Unfit
        return value
    if origin is tuple or origin in (list, Sequence):
        return _convert_items(value, origin, arguments)
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise _Unfit
        return {_convert(key, arguments[0]): _convert(item, arguments[1]) for key, item in value.items()}
    return _convert_plain(value, annotation)


def _convert_plain(value, annotation):
    if annotation in (Any, inspect.Parameter.empty):
        return value
    if not isinstance(annotation, type | None):  # a class in quotes, which is not imported, or an iterable
        if isinstance(value, numbers.Number):
            raise _Unfit
        return value
    if annotation is bool:
        if type(value).__name__ not in ("bool", "bool_"):  # Python's and NumPy's; the string "no" would count as true
            raise _Unfit
        return bool(value)
    if annotation in (int, float):
        number = numbers.Integral if annotation is int else numbers.Real
        is_number = isinstance(value, number) and not isinstance(value, bool)
        if not is_number or not -math.inf < value < math.inf:
            raise _Unfit
        try:
            return annotation(value)
        except OverflowError:  # an integer beyond all floats
            raise _Unfit from None
    if annotation is None:
        annotation = type(None)
    if not isinstance(value, annotation):
        raise _Unfit
    return value


def _convert_to_one_of(value, annotations):
    for annotation in annotations:
        try:
            return _convert(value, annotation)
        except _Unfit:
            continue
    raise _Unfit


def _convert_items(value, origin, annotations):
    if not isinstance(value, list | tuple):
        raise _Unfit
    if origin is tuple and annotations[-1:] != (Ellipsis,):
        if len(value) != len(annotations):
            raise _Unfit
        return tuple(_convert(item, inner) for item, inner in zip(value, annotations, strict=True))
    items = [_convert(item, annotations[0]) for item in value]
    return tuple(items) if origin is tuple else items


_WORDS = {
    bool: "True or False",
    int: "an integer",
    float: "a number",
    str: "a string",
    os.PathLike: "a path",
    Mapping: "a dict",
    Iterable: "an iterable",
    type(None): "None",
}


def describe_type(annotation: Any) -> str:
    """What a value of the type is, in words: "a positive integer", "one of ('best', 'last')", "a number or None"."""
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is Annotated:
        bounds = [item for item in arguments[1:] if isinstance(item, Bounds)]
        return _describe_bounds(arguments[0], bounds[0].interval) if bounds else describe_type(arguments[0])
    if origin in (typing.Union, types.UnionType):
        if os.PathLike in arguments:
            arguments = [argument for argument in arguments if argument is not str]
        words = [describe_type(argument) for argument in arguments if argument is not Any]
        return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
    if origin is Literal:
        return repr(arguments[0]) if len(arguments) == 1 else f"one of {arguments}"
    if origin is tuple and arguments[-1:] != (Ellipsis,):
        return f"({', '.join(map(describe_type, arguments))})"
    if origin in (dict, Mapping):
        return f"a dict of {describe_type(arguments[1])}"
    if origin in (tuple, list, Sequence):
        return f"a list, each item {describe_type(arguments[0])}"
    name = getattr(annotation, "__name__", None) or getattr(annotation, "__forward_arg__", str(annotation))
    words = name.replace(" | ", " or ")  # of a union in quotes
    return _WORDS.get(origin or annotation) or f"{'an' if name[0] in 'AEIOU' else 'a'} {words}"


def _describe_bounds(number, interval: str) -> str:
    if number is int and interval.endswith(", inf)"):
        least = interval[1:-6]
        return "a positive integer" if least == "1" else f"an integer of at least {least}"
    return f"{'an integer' if number is int else 'a number'} in {interval}"


def _is_within(value: float, interval: str) -> bool:
    """Whether a number lies in an interval, such as "[0, 1)"."""
    low, high = (float(bound) for bound in interval[1:-1].split(", "))
    is_above = value > low if interval[0] == "(" else value >= low
    return is_above and (value < high if interval[-1] == ")" else value <= high)


def check_path(value: Any, name: str, expected: str = "a path") -> pathlib.Path:
    """The value as a path; TypeError unless it is a string or an `os.PathLike`, ValueError if it is empty."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} must be {expected}. Received: {type(value).__name__}")
    if value == "":  # which pathlib takes for the current directory
        raise ValueError(f"{name} must be {expected}. Received: an empty string")
    return pathlib.Path(value)


def check_directory(value: Any, name: str) -> pathlib.Path:
    """The value as a path to write to; NotADirectoryError if it or a parent is a file, or a link to nothing."""
    path = check_path(value, name)
    here = path.absolute()
    nearest = next(place for place in (here, *here.parents) if place.exists() or place.is_symlink())
    if not nearest.is_dir():
        kind = "a file" if nearest.exists() else f"a link to {os.readlink(nearest)}, which does not exist"
        raise NotADirectoryError(f"{name} must be a directory. Received: {path}; {nearest} is {kind}")
    return path


def check_output_file(
    output: Any, overwrite: bool, endings: Sequence[str] = (), others: Sequence[pathlib.Path] = ()
) -> pathlib.Path:
    """The path of a file that can be written, with one of `endings` (none: any).

    It, and `others`, which are written beside it, do not exist unless they may be replaced.
    """
    output = check_path(output, "`output`")
    if endings and output.suffix.lower() not in endings:
        raise ValueError(f"`output` must end in {' or '.join(endings)}. Received: {output}")
    if output.is_dir():
        raise IsADirectoryError(f"`output` must be a file. Received: {output}, which is a directory")
    if not overwrite and (existing := [path for path in (output, *others) if path.exists()]):
        raise FileExistsError(f"{existing[0]} already exists; `overwrite` (--overwrite) replaces it")
    parent = next(parent for parent in output.absolute().parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise PermissionError(f"`output` cannot be written: {parent} is not a directory in which you may write")
    return output


def check_labels(labels: Any, owner: str, name: str = "labels") -> list[str]:
    """The labels as a list; ValueError unless they are a list, tuple or array of different strings, at least one."""
    listed = labels.tolist() if hasattr(labels, "tolist") else labels
    listed = list(map(str, check_option(owner, name, listed, list[str])))  # NumPy's strings have a class of their own
    if not 0 < len(set(listed)) == len(listed):
        raise ValueError(f"{owner}: `{name}` must be different strings, at least one. Received: {shown(labels)}")
    return listed


def shown(value: Any, most: int = 80) -> str:
    """A value as errors quote it: its `repr` or, of a longer one, the beginning and "…"."""
    if isinstance(value, str | bytes):
        value = value[: most + 1]  # all that can be shown
    elif isinstance(value, list | tuple) and len(value) > most:
        value = value[:most]
    text = repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def differing(first: dict, second: dict) -> list[str]:
    """The names of the settings that differ, in order; one that is missing is the same as None, also in nested ones."""
    return sorted(name for name in first.keys() | second.keys() if _given(first.get(name)) != _given(second.get(name)))


def _given(value):
    """A setting without what is None in it."""
    if isinstance(value, dict):
        return {name: _given(inner) for name, inner in value.items() if inner is not None}
    return [_given(inner) for inner in value] if isinstance(value, list | tuple) else value


def warn_of_empty_texts(column: str, count: int, total: int, first: str) -> None:
    """Logs how many of a column's texts are empty, and where the first one is. None, NaN and null are empty texts."""
    if count:
        logging.getLogger("kbert").warning(
            "%s of %s texts in %r are empty, None, NaN or null (first: %s). The model reads them as empty texts.",
            *(f"{count:,}", f"{total:,}", column, first),
        )


def is_missing(value: Any) -> bool:
    """Whether a value is None or one of pandas' missing ones: NaN, which does not equal itself, NA, NaT."""
    if value is None or type(value).__name__ == "NAType":  # which cannot be compared
        return True
    return not isinstance(value, list | dict) and value != value
