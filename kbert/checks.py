"""Checks that many arguments need."""


def check_positive(owner: str, **values) -> None:
    """Raises a ValueError that names owner and argument unless every value is a positive integer, and no bool."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{owner}: `{name}` must be a positive integer. Received: {value!r}")


def check_bool(value, name: str) -> bool:
    """The value as a bool; ValueError unless it is a bool or a `numpy.bool_`: the string "no" would count as true.

    Args:
        name: of the argument, and of its owner, for the message, such as "export: `frozen_weights`".
    """
    if isinstance(value, bool):
        return value
    import numpy as np  # not above: the configuration is cheap to import

    if not isinstance(value, np.bool_):
        raise ValueError(f"{name} must be True or False. Received: {value!r}")
    return bool(value)


def check_labels(labels, owner: str) -> list[str]:
    """The labels as a list; ValueError unless they are a list, tuple or array of different strings, at least one."""
    import numpy as np  # as in `check_bool`

    are_listed = isinstance(labels, list | tuple) or (isinstance(labels, np.ndarray) and labels.ndim == 1)
    if not are_listed or not len(labels) or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{owner}: `labels` must be a list of strings. Received: {labels!r}")
    labels = [str(label) for label in labels]  # an array's strings have a class of their own
    if len(set(labels)) < len(labels):
        raise ValueError(f"{owner}: `labels` must differ from each other. Received: {labels!r}")
    return labels
