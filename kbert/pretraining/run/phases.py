"""The phases of a pre-training: sequence lengths in order, as the paper's 128 and then 512, and what happens when.

A batch size that rises divides phases into stages.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kbert.config import default_max_predictions


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of a run whose batches all have the same shape: it ends at `end`, a fraction of the run."""

    end: float
    phase: int  # its number
    batch_size: int
    sequence_length: int
    max_predictions: int


class Phase(NamedTuple):
    """A part of a run, with its fraction of the run and the maximum number of masks in a row."""

    sequence_length: int
    fraction: float
    batch_size: int
    max_predictions: int


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
