"""The columns of a table that make one text of a pipeline."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class TextColumns:
    """Columns of a table that are joined to one text.

    Args:
        names: of the columns, in the order of the text.
        separator: what stands between the texts of two columns.

    Example::

        TextColumns(("subject", "body"), ": ").text({"subject": "Refund", "body": "It broke."})  # "Refund: It broke."
    """

    names: tuple[str, ...]
    separator: str = " "

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any], inputs: Sequence[str]) -> "dict[str, TextColumns]":
        """The columns of a pipeline's inputs, by the fields of a task: ``text``, ``text_pair``, ``text_separator`` …

        Fields that are not names of columns are skipped: they may come from a user's own description of a model.
        """
        separator = fields.get("text_separator", cls.separator)
        names = {name: names_of(fields[name]) for name in inputs if is_names(fields.get(name))}
        return {name: cls(columns, separator) for name, columns in names.items()}

    def text(self, row: Mapping[str, Any]) -> Any:
        """The text of a row. The value of a single column is returned as it is."""
        return row[self.names[0]] if len(self.names) == 1 else self.separator.join(row[name] for name in self.names)


def names_of(columns: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several as a tuple."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


def is_names(columns: Any) -> bool:
    """Whether a value is a name, or a list of names."""
    are_listed = isinstance(columns, list | tuple) and len(columns) > 0
    return isinstance(columns, str) or are_listed and all(isinstance(name, str) for name in columns)
