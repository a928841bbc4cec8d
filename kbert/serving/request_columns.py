"""Checks of what a client is given, before it is sent.

Shapes: B rows, C choices.
"""

from collections.abc import Mapping

_COLUMN = "a list of strings, or of lists of strings"


def request_columns(inputs) -> dict[str, list]:
    """The columns of a request as lists of str or bytes, or of lists of them.

    Args:
        inputs: dict or pandas DataFrame of columns: lists, NumPy arrays, pandas Series; [B], or [B, C], of which the
            rows may differ in length: they are padded to the longest with "", which is not a choice.

    Raises:
        ValueError: no columns, columns of different lengths, one that is not a list, a row that is not a string; the
            message names column and row.
    """
    if hasattr(inputs, "columns"):
        inputs = {name: inputs[name] for name in inputs.columns}
    if not isinstance(inputs, Mapping) or not inputs:
        raise ValueError(f"ServingClient: expected a dict of column → list of strings. Received: {inputs!r:.200}")
    columns = {name: _column(name, column) for name, column in inputs.items()}
    rows = {name: len(column) for name, column in columns.items()}
    if len(set(rows.values())) > 1:
        raise ValueError(f"ServingClient: expected columns of one length. Received: {rows}")
    return columns


def check_examples(examples) -> None:
    """Raises a ValueError unless these are dicts of column → string, in a list."""
    if not isinstance(examples, (list, tuple)):
        raise ValueError(f"ServingClient: expected a list of dicts of column → string. Received: {examples!r:.200}")
    for number, example in enumerate(examples):
        if not isinstance(example, Mapping):
            raise ValueError(
                f"ServingClient: examples[{number}]: expected a dict of column → string. Received: {example!r:.200}"
            )
        for name, value in example.items():
            _check_string(value, f"examples[{number}], `{name}`")


def check_string(name: str, value) -> None:
    """Raises a ValueError that names the argument unless it is a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"ServingClient: `{name}` must be a string that is not empty. Received: {value!r:.200}")


def _column(name, column):
    rows = _plain(column)
    if not isinstance(rows, (list, tuple)):
        raise ValueError(f"ServingClient: `{name}` must be {_COLUMN}. Received: {column!r:.200}")
    rows = [_plain(row) for row in rows]
    kinds = {isinstance(row, (list, tuple)) for row in rows}
    if len(kinds) > 1:
        raise ValueError(f"ServingClient: `{name}` must be {_COLUMN}. Received: {column!r:.200}")
    if kinds != {True}:
        for number, row in enumerate(rows):
            _check_string(row, f"`{name}`[{number}]")
        return rows
    for number, row in enumerate(rows):
        for place, string in enumerate(row):
            _check_string(string, f"`{name}`[{number}][{place}]")
    width = max(map(len, rows))
    return [[*row, *[""] * (width - len(row))] for row in rows]


def _check_string(value, where):
    if not isinstance(value, (str, bytes)):
        raise ValueError(f"ServingClient: {where}: expected str or bytes. Received: {value!r:.60}")


def _plain(values):
    """A NumPy array or a pandas Series as a list."""
    return values.tolist() if hasattr(values, "tolist") else values
