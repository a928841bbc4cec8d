"""Checks that many arguments need."""


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


def _check_integers(owner, least, expected, values):
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{owner}: `{name}` must be {expected}. Received: {value!r}")
