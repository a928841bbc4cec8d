"""A check that many arguments need."""


def check_positive(owner: str, **values) -> None:
    """Raises a ValueError that names owner and argument unless every value is a positive integer, and no bool."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{owner}: `{name}` must be a positive integer. Received: {value!r}")
