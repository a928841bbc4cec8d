"""The stages of a run: parts that have batches of a shape of their own."""

import dataclasses
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of a run whose batches all have the same shape.

    Attributes:
        end: float in (0, 1], where it ends, as a share of the run.
        validation_data: as for `model.fit`.
        real_share: float, the share of its tokens that are not padding, or None.
        phase: int, the number of the phase of a pre-training that it belongs to.
        batch_size, sequence_length, max_predictions: ints, of a pre-training: rows of an update, tokens of a row, and
            how many of them are masked at most.
    """

    end: float = 1.0
    validation_data: Any = None
    real_share: float | None = None
    phase: int = 0
    batch_size: int | None = None
    sequence_length: int | None = None
    max_predictions: int | None = None


def first_steps(stages: Sequence[Stage], total_steps: int, multiple: int = 1) -> list[int]:
    """The first step of every stage of a run of `total_steps`; stages end at multiples of a number of steps."""
    return [0, *(round(stage.end * total_steps / multiple) * multiple for stage in stages[:-1])]
