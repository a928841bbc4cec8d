"""How a labelled text is shown in a table of examples."""

from collections.abc import Callable

from kbert.inspection.markdown import escape
from kbert.tasks.labelled_text import LabelledText

_MOST_CHARACTERS = 300


def example_columns(examples: LabelledText) -> tuple[list[str], Callable[[int], list[str]]]:
    """(names of columns, function of a row that returns Markdown for them): the texts, and the place in their file."""
    columns = examples.columns

    def cells(row):
        return [*(escape(texts[row], _MOST_CHARACTERS) for texts in columns.values()), escape(examples.source(row))]

    return [*(name.replace("_", " ") for name in columns), "from"], cells
