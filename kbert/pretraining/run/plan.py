"""What a pre-training does when: its phases and the ramp of its batch size, as one list of stages."""

import dataclasses
import itertools

from kbert.pretraining.run.phases import Phase
from kbert.training.stages import Stage, Stages


@dataclasses.dataclass(frozen=True)
class PlannedStage:
    """A part of a pre-training whose batches all have the same shape.

    Attributes:
        end: float, where it ends, as a share of the run.
        number: int, of the phase it belongs to.
        batch_size: int, rows of an update.
    """

    end: float
    number: int
    phase: Phase
    batch_size: int


def plan_stages(phases, ramp=None) -> list[PlannedStage]:
    """The stages of a run.

    With a ramp the batch size doubles from the first one on, in equal parts of the share of the run that the ramp
    takes, until it is that of the phase.

    Example::

        [stage.batch_size for stage in plan_stages([Phase(128, 1.0, 32, 20)], (8, 0.5))]  # [8, 16, 32]
    """
    ends = list(itertools.accumulate(phase.share for phase in phases))
    ends[-1] = 1.0
    sizes = _ramp_sizes(ramp, max(phase.batch_size for phase in phases))  # [(end, size)]
    stages, start = [], 0.0
    for end in sorted({*ends, *(end for end, _ in sizes)}):
        number = next(n for n, last in enumerate(ends) if start < last)
        limit = next((size for last, size in sizes if start < last), None)
        size = phases[number].batch_size
        stages.append(PlannedStage(end, number, phases[number], min(size, limit or size)))
        start = end
    return _joined(stages)


def count_steps(stages, steps, multiple=1) -> list[int]:
    """The number of steps of every `PlannedStage` of a run of `steps`; those of a short ramp may have none.

    Args:
        multiple: int, stages end at multiples of this number of steps.

    Raises:
        ValueError: a phase without a step.
    """
    starts = Stages([Stage(stage.end) for stage in stages], steps, multiple).starts
    counts = [end - start for start, end in zip(starts, [*starts[1:], steps], strict=True)]
    for number, phase in {stage.number: stage.phase for stage in stages}.items():
        if not sum(count for count, stage in zip(counts, stages, strict=True) if stage.number == number):
            raise ValueError(
                f"pretrain: each of `phases` needs a step. Received: phases[{number}], {phase.share:.2%} of "
                f"{steps:,} steps, with {phase.sequence_length} tokens"
            )
    return counts


def first_row(stages, starts, step) -> int:
    """The first row that a step reads, of those of its phase."""
    current = stages[len(starts) - 1]
    ends = [*starts[1:], step]
    spans = zip(stages, starts, ends, strict=False)
    return sum((end - start) * stage.batch_size for stage, start, end in spans if stage.number == current.number)


def _ramp_sizes(ramp, full):
    if ramp is None:
        return []
    first, share = ramp
    sizes = list(itertools.takewhile(lambda size: size < full, (first * 2**n for n in itertools.count())))
    return [(share * (n + 1) / len(sizes), size) for n, size in enumerate(sizes)]


def _joined(stages):
    """Stages without those that go on as the one before."""
    joined = []
    for stage in stages:
        if joined and dataclasses.replace(joined[-1], end=stage.end) == stage:
            joined.pop()
        joined.append(stage)
    return joined
