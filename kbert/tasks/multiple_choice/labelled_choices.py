"""Prompts with several choices in memory, and which choice is right: what multiple choice learns from.

Shapes: n questions, C choices.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class LabelledChoices:
    """Prompts, their choices, and the number of the right one. Questions may differ in how many choices they have.

    Example::

        examples = LabelledChoices(["A drum line"], [["passes by.", "is asleep."]], np.array([0], "int32"))
    """

    prompts: Sequence[str]  # n
    choices: Sequence[Sequence[str]]  # n lists, at most C strings each; an empty string is no choice
    labels: np.ndarray  # int32 [n], counted from 0

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

    def __len__(self):
        return len(self.prompts)

    @property
    def columns(self) -> dict[str, Sequence]:
        """The strings, by the names that `ChoicePreprocessor` has for them; every row with C choices."""
        return {"prompt": self.prompts, "choices": padded_choices(self.choices)}

    def take(self, rows) -> "LabelledChoices":
        """The examples of the given row numbers, in their order."""
        return LabelledChoices(
            [self.prompts[i] for i in rows], [self.choices[i] for i in rows], self.labels[np.asarray(rows)]
        )

    def split(self, count: int, seed: int = 0) -> tuple["LabelledChoices", "LabelledChoices"]:
        """`count` examples drawn at random, and the others, as `LabelledText.split`."""
        if not 0 < count < len(self):
            raise ValueError(f"Expected to draw 1 to {len(self) - 1} of {len(self)} examples. Received: {count}")
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(self))
        return self.take(np.sort(order[:count])), self.take(np.sort(order[count:]))


def padded_choices(choices: Sequence[Sequence[str]]) -> list[list[str]]:
    """The lists filled up with empty strings, which are no choices, to the length of the longest."""
    most = max(map(len, choices))
    return [[*row, *[""] * (most - len(row))] for row in choices]
