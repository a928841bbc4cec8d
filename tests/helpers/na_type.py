"""A missing value as pandas has it."""


class NAType:
    """As pandas' own, it cannot be compared."""

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")
