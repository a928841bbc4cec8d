"""The course of a pre-training: phases of one sequence length each, a rising batch size, steps, the learning rate.

A batch size that rises divides phases into stages.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import keras

from kbert.config import default_max_predictions, default_num_parts
from kbert.optim.schedule import WarmupLinearDecay
from kbert.optim.warmup_stable_decay import WarmupStableDecay

SEQUENCE_LENGTH = 128
_WARMUP_PROPORTION, _WARMUP = 0.1, 10_000  # the default: a fraction of the run, and at most so many steps
_DECAY_FRACTION = 0.2  # the end of a run with a stable rate, in which it falls to 0


class Phase(NamedTuple):
    """A part of a run, with its fraction of the run and the maximum number of masks in a row."""

    sequence_length: int
    fraction: float
    batch_size: int
    max_predictions: int


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of a run whose batches all have the same shape.

    Attributes:
        end: float in (0, 1], where it ends, as a fraction of the run.
        phase: int, the number of the phase that it belongs to.
        batch_size, sequence_length, max_predictions: ints.
    """

    end: float
    phase: int
    batch_size: int
    sequence_length: int
    max_predictions: int


@dataclasses.dataclass(frozen=True)
class Course:
    """What a run trains on when.

    Attributes:
        phases: tuple of `Phase`; of a run of one sequence length there is one.
        ramp: (first batch size, fraction of the run in which it rises) or None.
        steps: int, weight updates; None until the steps of a run of some hours are known.
        multiple: int, stages end at multiples of it.
    """

    phases: tuple[Phase, ...]
    ramp: tuple[int, float] | None = None
    steps: int | None = None
    multiple: int = 1

    def __post_init__(self):
        largest = max(stage.batch_size for stage in self.stages)
        if self.ramp is not None and self.ramp[0] >= largest:
            raise ValueError(
                f"pretrain: `batch_size_ramp` must begin below the batch size. Received: {self.ramp[0]}, of {largest}"
            )
        if self.steps is None:
            return
        if self.steps % self.multiple:
            raise ValueError(
                "pretrain: `steps` must be a multiple of `steps_per_execution`. "
                f"Received: {self.steps} and {self.multiple}"
            )
        count_steps(self.stages, self.steps, self.multiple)  # an error if a phase has none

    @property
    def stages(self) -> list[Stage]:
        """The stages of the run, in order."""
        return plan_stages(self.phases, self.ramp)

    @property
    def stage_steps(self) -> list[int]:
        """The number of steps of each stage."""
        return count_steps(self.stages, self.steps, self.multiple)

    @property
    def starts(self) -> list[int]:
        """The first step of each stage."""
        return first_steps(self.stages, self.steps, self.multiple)

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
    warmup_steps: int | None = None
    warmup_proportion: float | None = None

    def warmup(self, steps: int) -> int:
        """Steps of rising learning rate in a run of `steps`."""
        if self.warmup_steps is not None:
            if self.warmup_steps > steps:
                raise ValueError(
                    f"pretrain: `warmup_steps` must be at most `steps`. Received: {self.warmup_steps} of {steps}"
                )
            return self.warmup_steps
        if self.warmup_proportion is not None:
            return max(1, math.ceil(steps * self.warmup_proportion))
        # Without bias correction the first hundreds of updates are several times too large: after too short a warm-up
        # the run stays on the plateau of token frequencies (docs/maintainers/log.md).
        return min(_WARMUP, math.ceil(steps * _WARMUP_PROPORTION))

    def of_run(self, steps: int) -> keras.optimizers.schedules.LearningRateSchedule:
        """The schedule of a run of `steps`: appendix A.2's, or with a constant rate after the warm-up."""
        warmup = self.warmup(steps)
        if self.schedule == "linear":
            return WarmupLinearDecay(self.peak, warmup, steps)
        if self.schedule == "constant":
            return WarmupStableDecay(self.peak, warmup)
        return WarmupStableDecay(self.peak, warmup, steps, min(math.ceil(_DECAY_FRACTION * steps), steps - warmup))


def plan_phases(
    phases: Iterable | None,
    sequence_length: int | None,
    batch_size: int,
    max_predictions: int | None,
    mask_rate: float,
    left_to_right: bool,
) -> tuple[Phase, ...]:
    """The phases of a run, in order; without `phases` it is one."""

    def default(length):
        return default_max_predictions(length, mask_rate, left_to_right)

    if phases is None:
        length = sequence_length or SEQUENCE_LENGTH
        return (Phase(length, 1.0, batch_size, max_predictions or default(length)),)
    planned = read_phases(phases, batch_size, max_predictions, default)
    longest = max(phase.sequence_length for phase in planned)
    if sequence_length not in (None, longest):  # settings.json, which can be a configuration, has the longest
        raise ValueError(
            f"pretrain: `phases` have sequence lengths. Received: sequence_length={sequence_length} as well"
        )
    return planned


def read_phases(
    phases: Iterable, batch_size: int, max_predictions: int | None = None, default: Callable = default_max_predictions
) -> tuple[Phase, ...]:
    """Phases as they are given to `kbert.pretrain` or on the command line.

    Source: Devlin et al. 2018, appendix A.2.
    """
    phases = list(phases)
    complete = tuple(_read_phase(phase, batch_size, max_predictions, default) for phase in phases)
    if not complete or not math.isclose(math.fsum(phase.fraction for phase in complete), 1.0, abs_tol=1e-6):
        raise ValueError(f"pretrain: the fractions of `phases` must have the sum 1. Received: {phases}")
    return complete


def read_ramp(given: str | Sequence[float] | None) -> tuple[int, float] | None:
    """A batch-size ramp, (first batch size, fraction of the run) or "8:0.3", or None."""
    if given is None:
        return None
    try:
        size, fraction = given.split(":") if isinstance(given, str) else given
        ramp = _whole(size), float(fraction)
    except (TypeError, ValueError):
        ramp = 0, 0.0
    if ramp[0] < 1 or not 0 < ramp[1] <= 1:
        raise ValueError(
            "pretrain: expected `batch_size_ramp` as the first batch size and the fraction of the run for which it "
            f"rises, such as 8:0.3. Received: {given!r}"
        )
    return ramp


def _read_phase(phase, batch_size, max_predictions, default):
    try:
        length, fraction, *more = phase.split(":") if isinstance(phase, str) else phase
        if len(more) > 2:
            raise ValueError
        length = _whole(length)
        fraction = float(fraction)
        more = [_whole(value) for value in more]
        if min(length, *more, 1) < 1 or not 0 < fraction <= 1:
            raise ValueError
    except (TypeError, ValueError):
        raise ValueError(
            "pretrain: expected each of `phases` as SEQUENCE_LENGTH:FRACTION, with :BATCH_SIZE and :MAX_PREDICTIONS if "
            f"they differ, such as 128:0.9 or 512:0.1:64:80. Received: {phase!r}"
        ) from None
    size, predictions = (*more, *(batch_size, max_predictions)[len(more) :])
    return Phase(length, fraction, size, predictions or default(length))


def _whole(value):
    number = int(value)
    if isinstance(value, bool) or number != float(value):
        raise ValueError
    return number


def plan_stages(phases: Sequence[Phase], ramp: tuple[int, float] | None = None) -> list[Stage]:
    """The stages of a run.

    With a ramp the batch size doubles from its first one on, in equal parts of its fraction of the run, until it is
    that of the phase.

    Example::

        [stage.batch_size for stage in plan_stages([(128, 1.0, 32, 20)], (8, 0.5))]  # [8, 16, 32]
    """
    phases = [Phase(*phase) for phase in phases]
    ends = list(itertools.accumulate(phase.fraction for phase in phases))
    ends[-1] = 1.0
    ramped = _ramp_sizes(ramp, max(phase.batch_size for phase in phases))  # [(end, size)]
    stages: list[Stage] = []
    start = 0.0
    for end in sorted({*ends, *(end for end, _ in ramped)}):
        number = next(n for n, last in enumerate(ends) if start < last)
        phase = phases[number]
        limit = next((limit for last, limit in ramped if start < last), phase.batch_size)
        stage = Stage(
            end,
            phase=number,
            batch_size=min(phase.batch_size, limit),
            sequence_length=phase.sequence_length,
            max_predictions=phase.max_predictions,
        )
        if stages and dataclasses.replace(stages[-1], end=end) == stage:
            stages.pop()  # it goes on
        stages.append(stage)
        start = end
    return stages


def first_steps(stages: Sequence[Stage], steps: int, multiple: int = 1) -> list[int]:
    """The first step of every stage of a run of `steps`; stages end at multiples of a number of steps."""
    return [0, *(round(stage.end * steps / multiple) * multiple for stage in stages[:-1])]


def count_steps(stages: Sequence[Stage], steps: int, multiple: int = 1) -> list[int]:
    """The number of steps of every stage of a run of `steps`; those of a short ramp may have none."""
    starts = first_steps(stages, steps, multiple)
    counts = [end - start for start, end in zip(starts, [*starts[1:], steps], strict=True)]
    start = 0.0
    for number, group in itertools.groupby(zip(stages, counts, strict=True), lambda pair: pair[0].phase):
        of_phase = list(group)
        last = of_phase[-1][0]
        if not sum(count for _, count in of_phase):
            raise ValueError(
                f"pretrain: each of `phases` needs a step. Received: phases[{number}], {last.end - start:.2%} of "
                f"{steps:,} steps, with {last.sequence_length} tokens"
            )
        start = last.end
    return counts


def first_row(stages: Sequence[Stage], starts: Sequence[int], step: int) -> int:
    """The first row that a step reads, of those of its phase."""
    current = stages[len(starts) - 1]
    spans = zip(stages, starts, [*starts[1:], step], strict=False)
    return sum((end - start) * stage.batch_size for stage, start, end in spans if stage.phase == current.phase)


def _ramp_sizes(ramp, full):
    if ramp is None:
        return []
    first, fraction = ramp
    sizes = list(itertools.takewhile(lambda size: size < full, (first * 2**n for n in itertools.count())))
    return [(fraction * (n + 1) / len(sizes), size) for n, size in enumerate(sizes)]
