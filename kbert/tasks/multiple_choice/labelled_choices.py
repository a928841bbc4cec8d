"""Prompts with several choices in memory, and the right choice of each: the examples of multiple choice.

Shapes: n questions, C choices.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from kbert.tasks.examples import Examples


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LabelledChoices(Examples):
    """Prompts, their choices, and the number of the right one. Questions may differ in how many choices they have."""

    prompts: Sequence[str]  # n
    choices: Sequence[Sequence[str]]  # n lists of at most C strings each; an empty string is not a choice
    labels: np.ndarray  # int32 [n], counted from 0
    path: str | None = None
    lines: Sequence[int] = ()

    row_fields = ("prompts", "choices", "labels")
    regression = False
    skipped = 0

    def __post_init__(self):
        if not len(self.prompts) == len(self.choices) == len(self.labels) or not len(self.prompts):
            raise ValueError(
                "Expected as many prompts, lists of choices and labels, at least one. "
                f"Received: {len(self.prompts)}, {len(self.choices)} and {len(self.labels)}"
            )
        for number, (choices, label) in enumerate(zip(self.choices, self.labels, strict=True)):
            if not 0 <= label < len(choices) or not choices[label]:
                raise ValueError(f"Expected the label of example {number} to be one of {choices}. Received: {label}")

    @property
    def columns(self) -> dict[str, Sequence]:
        """The strings, by the names of `ChoicePreprocessor`'s inputs; every row has C choices."""
        return {"prompt": self.prompts, "choices": padded_choices(self.choices)}

    def _rows(self):
        return {"prompt": list(self.prompts), "choices": list(self.choices), "label": self.labels.tolist()}

    def baseline(self) -> int:
        """The number that is right most often."""
        return int(np.bincount(self.labels).argmax())


def padded_choices(choices: Sequence[Sequence[str]]) -> list[list[str]]:
    """The lists, filled up with empty strings to the length of the longest."""
    most = max(map(len, choices))
    return [[*row, *[""] * (most - len(row))] for row in choices]
