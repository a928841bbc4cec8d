"""Checks that many arguments need."""

import numpy as np


def check_positive(owner: str, **values) -> None:
    """Raises a ValueError that names owner and argument unless every value is a positive integer, and no bool."""
    _check_integers(owner, 1, "a positive integer", values)


def check_integers(owner: str, least: int, **values) -> None:
    """The same unless every value is an integer of at least `least`, and no bool."""
    _check_integers(owner, least, f"an integer of at least {least}", values)


def check_numbers(owner: str, interval: str, **values) -> None:
    """The same unless every value is a number in the interval, such as "[0, 1)" or "(0, inf)", and no bool."""
    low, high = (float(bound) for bound in interval[1:-1].split(", "))
    for name, value in values.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_in = is_number and low <= value <= high
        if not is_in or (value == low and interval[0] == "(") or (value == high and interval[-1] == ")"):
            raise ValueError(f"{owner}: `{name}` must be a number in {interval}. Received: {value!r}")


def check_bool(value, name: str) -> bool:
    """The value as a bool; ValueError unless it is a bool or a `numpy.bool_`: the string "no" would count as true.

    Args:
        name: of the argument, and of its owner, for the message, such as "export: `frozen_weights`".
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False. Received: {value!r}")
    return bool(value)


def check_labels(labels, owner: str) -> list[str]:
    """The labels as a list; ValueError unless they are a list, tuple or array of different strings, at least one."""
    are_listed = isinstance(labels, list | tuple) or (isinstance(labels, np.ndarray) and labels.ndim == 1)
    if not are_listed or not len(labels) or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{owner}: `labels` must be a list of strings. Received: {labels!r}")
    labels = [str(label) for label in labels]  # an array's strings have a class of their own
    if len(set(labels)) < len(labels):
        raise ValueError(f"{owner}: `labels` must differ from each other. Received: {labels!r}")
    return labels


def _check_integers(owner, least, expected, values):
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{owner}: `{name}` must be {expected}. Received: {value!r}")
