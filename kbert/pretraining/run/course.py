"""The course of a pre-training: phases of one sequence length each, their steps, the learning rate."""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import keras

from kbert.config import MASK_RATE, default_max_predictions, default_num_parts
from kbert.optim.schedule import WarmupLinearDecay
from kbert.optim.warmup_stable_decay import WarmupStableDecay
from kbert.pretraining.run.options import SEQUENCE_LENGTH, PhasePlan

_WARMUP_FRACTION, _WARMUP = 0.1, 10_000  # the default: a fraction of the run, and the paper's steps at most
_DECAY_FRACTION = 0.2  # the end of a run with a stable rate, in which it falls to 0


class Phase(NamedTuple):
    """A part of a run, whose batches all have the same shape.

    sequence_length, batch_size: ints.
    fraction: float in (0, 1], of the run's steps.
    max_predictions: int, the maximum number of masks in a row.
    """

    sequence_length: int
    fraction: float
    batch_size: int
    max_predictions: int


@dataclasses.dataclass(frozen=True)
class Course:
    """What a run trains on when.

    Attributes:
        phases: tuple of `Phase`; a run with one sequence length has one.
        steps: int, weight updates; None until the steps of a run of some hours are known.
        multiple: int, phases end at multiples of it.
    """

    phases: tuple[Phase, ...]
    steps: int | None = None
    multiple: int = 1

    def __post_init__(self):
        if self.steps is None:
            return
        if self.steps % self.multiple:
            raise ValueError(
                "pretrain: `steps` must be a multiple of `steps_per_execution`. "
                f"Received: {self.steps} and {self.multiple}"
            )
        for number, (phase, steps) in enumerate(zip(self.phases, self.phase_steps, strict=True)):
            if not steps:
                raise ValueError(
                    f"pretrain: each of `phases` needs a step. Received: phases[{number}], {phase.fraction:.2%} of "
                    f"{self.steps:,} steps, with {phase.sequence_length} tokens"
                )

    @property
    def ends(self) -> list[int]:
        """The last step of each phase."""
        fractions = itertools.accumulate(phase.fraction for phase in self.phases[:-1])
        return [*(round(end * self.steps / self.multiple) * self.multiple for end in fractions), self.steps]

    @property
    def phase_steps(self) -> list[int]:
        """The number of steps of each phase."""
        return [end - start for start, end in itertools.pairwise([0, *self.ends])]

    @property
    def sequence_length(self) -> int:
        """The longest of the phases."""
        return max(phase.sequence_length for phase in self.phases)

    @property
    def num_parts(self) -> int:
        """K of packed rows, the same for all phases."""
        return default_num_parts(self.sequence_length)


@dataclasses.dataclass(frozen=True)
class LearningRate:
    """The learning rate of a run: arguments of `kbert.pretrain`."""

    peak: float
    schedule: str
    warmup_steps: int | float | None = None

    def warmup(self, steps: int) -> int:
        """Steps of rising learning rate in a run of `steps`."""
        if self.warmup_steps is None:
            # Without bias correction the first hundreds of updates are several times too large: after too short a
            # warm-up the run stays on the plateau of token frequencies (docs/maintainers/log.md).
            return min(_WARMUP, math.ceil(steps * _WARMUP_FRACTION))
        if isinstance(self.warmup_steps, float):
            return math.ceil(steps * self.warmup_steps)
        if self.warmup_steps > steps:
            raise ValueError(
                f"pretrain: `warmup_steps` must be at most `steps`. Received: {self.warmup_steps} of {steps}"
            )
        return self.warmup_steps

    def of_run(self, steps: int) -> keras.optimizers.schedules.LearningRateSchedule:
        """The schedule of a run of `steps`: appendix A.2's, or with a constant rate after the warm-up."""
        warmup = self.warmup(steps)
        if self.schedule == "linear":
            return WarmupLinearDecay(self.peak, warmup, steps)
        if self.schedule == "constant":
            return WarmupStableDecay(self.peak, warmup)
        return WarmupStableDecay(self.peak, warmup, steps, min(math.ceil(_DECAY_FRACTION * steps), steps - warmup))


def plan_phases(
    phases: Sequence[PhasePlan] | None,
    batch_size: int,
    sequence_length: int = SEQUENCE_LENGTH,
    max_predictions: int | None = None,
    mask_rate: float = MASK_RATE,
    left_to_right: bool = False,
) -> tuple[Phase, ...]:
    """The phases of a run, of the arguments of `kbert.pretrain` with these names.

    Source: Devlin et al. 2018, appendix A.2.
    """
    planned = []
    for length, fraction, *own in [(sequence_length, 1.0)] if phases is None else phases:
        size, predictions = *own, *(batch_size, max_predictions)[len(own) :]
        default = default_max_predictions(length, mask_rate, left_to_right)
        planned.append(Phase(length, fraction, size, predictions or default))
    if not planned or not math.isclose(math.fsum(phase.fraction for phase in planned), 1.0, abs_tol=1e-6):
        raise ValueError(f"pretrain: the fractions of `phases` must have the sum 1. Received: {phases}")
    longest = max(phase.sequence_length for phase in planned)
    if sequence_length not in (SEQUENCE_LENGTH, longest):  # settings.json, a possible --config, has the longest
        raise ValueError(
            f"pretrain: `phases` have sequence lengths. Received: sequence_length={sequence_length} as well"
        )
    return tuple(planned)
