"""Checks that many arguments need; `owner` and `name` are those of the argument, for the message."""

import logging
import numbers
import os
import pathlib
from collections.abc import Sequence
from typing import Any


def check_positive(owner: str, **values) -> dict[str, int]:
    """The values as ints, by name; ValueError unless each is a positive integer, of Python or NumPy, and no bool."""
    return check_integers(owner, 1, **values)


def check_integers(owner: str, least: int, **values) -> dict[str, int]:
    """The same of integers of at least `least`."""
    expected = "a positive integer" if least == 1 else f"an integer of at least {least}"
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
            raise ValueError(f"{owner}: `{name}` must be {expected}. Received: {value!r}")
    return {name: int(value) for name, value in values.items()}


def check_numbers(owner: str, interval: str, **values) -> dict[str, float]:
    """The same of numbers in an interval, such as "[0, 1)" or "(0, inf)", as floats."""
    for name, value in values.items():
        if not isinstance(value, numbers.Real) or isinstance(value, bool) or not is_within(value, interval):
            raise ValueError(f"{owner}: `{name}` must be a number in {interval}. Received: {value!r}")
    return {name: float(value) for name, value in values.items()}


def is_within(value: float, interval: str) -> bool:
    """Whether a number lies in an interval, such as "[0, 1)"."""
    low, high = (float(bound) for bound in interval[1:-1].split(", "))
    is_above = value > low if interval[0] == "(" else value >= low
    return is_above and (value < high if interval[-1] == ")" else value <= high)


def check_bool(value: Any, name: str) -> bool:
    """The value as a bool; ValueError unless it is a bool or a `numpy.bool_`: the string "no" would count as true."""
    if isinstance(value, bool):
        return value
    import numpy as np  # not above: the configuration is cheap to import

    if not isinstance(value, np.bool_):
        raise ValueError(f"{name} must be True or False. Received: {value!r}")
    return bool(value)


def check_path(value: Any, name: str, expected: str = "a path") -> pathlib.Path:
    """The value as a path; TypeError unless it is a string or an `os.PathLike`."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} must be {expected}. Received: {type(value).__name__}")
    return pathlib.Path(value)


def check_directory(value: Any, name: str) -> pathlib.Path:
    """The value as a path to write to; NotADirectoryError if it or a parent is a file, or a link to nothing."""
    path = check_path(value, name)
    here = path.absolute()
    nearest = next(place for place in (here, *here.parents) if place.exists() or place.is_symlink())
    if not nearest.exists():
        raise NotADirectoryError(
            f"{name} must be a directory. Received: {path}; {nearest} is a link to "
            f"{os.readlink(nearest)}, which does not exist. Create that directory, or remove the link."
        )
    if not nearest.is_dir():
        file = "which is a file" if nearest == here else f"but {nearest} is a file"
        raise NotADirectoryError(f"{name} must be a directory. Received: {path}, {file}")
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
    import numpy as np  # as in `check_bool`

    are_listed = isinstance(labels, list | tuple) or (isinstance(labels, np.ndarray) and labels.ndim == 1)
    if not are_listed or not len(labels) or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{owner}: `{name}` must be a list of strings. Received: {labels!r}")
    labels = [str(label) for label in labels]  # an array's strings have a class of their own
    if len(set(labels)) < len(labels):
        raise ValueError(f"{owner}: `{name}` must differ from each other. Received: {labels!r}")
    return labels


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
