"""Where a run is: the state that `fit_steps` and its callbacks share."""

import bisect
from collections.abc import Sequence

from kbert.training.stages import Stage, first_steps


class RunState:
    """Where a run is.

    By the clock every stage has at least one step, also where a step lasts longer than the stage: the run may then end
    a step later for each.

    Args:
        stages: `Stage`s in order; the last ends at 1.
        total_steps: int; None: stages end by the clock, when `advance` is told so.
        multiple: int, stages end at multiples of this number of steps.

    Attributes:
        starts: list of ints, the first step of every stage; by the clock of those that have begun.

    Raises:
        ValueError: ends that do not increase to 1.

    Example::

        run = RunState([Stage(0.9), Stage(1.0)], total_steps=1000)
        run.stage_end(20), run.begun(950)  # 900, [0, 900]
    """

    def __init__(self, stages: Sequence[Stage], total_steps: int | None = None, multiple: int = 1):
        self.stages, self.total_steps = list(stages), total_steps
        ends = [stage.end for stage in self.stages]
        if ends != sorted(set(ends)) or not ends or ends[0] <= 0 or ends[-1] != 1:
            raise ValueError(f"fit_steps: expected stages with ends that increase from above 0 to 1. Received: {ends}")
        self.starts = [0] if total_steps is None else first_steps(self.stages, total_steps, multiple)
        self._share = 0.0

    def restore(self, starts: Sequence[int], share: float = 0.0) -> None:
        """Sets what a checkpoint recorded of a run by the clock: `starts`, and the share of the run that is done."""
        self.starts, self._share = list(starts), share

    def begun(self, step: int) -> list[int]:
        """The first steps of all stages up to that of this step."""
        return self.starts[: bisect.bisect_right(self.starts, step)]

    def stage_at(self, step: int) -> Stage:
        """The stage of a step; of the end of the run, the last."""
        return self.stages[len(self.begun(step)) - 1]

    def stage_end(self, step: int) -> int | None:
        """The step at which the stage of this step ends; None: the clock decides."""
        if self.total_steps is None:
            return None
        later = self.starts[len(self.begun(step)) :]
        return later[0] if later else self.total_steps

    def is_over(self, step: int) -> bool:
        """Whether the run ends at this step."""
        if self.total_steps is not None:
            return step >= self.total_steps
        return self._share >= 1 and len(self.starts) == len(self.stages) and step > self.starts[-1]

    def advance(self, step: int, share: float) -> bool:
        """Tells a run by the clock that `share` of it is over after `step` steps; returns whether its stage ends."""
        self._share = share
        ends = share >= self.stages[len(self.starts) - 1].end
        if ends and len(self.starts) < len(self.stages):
            self.starts.append(step)
        return ends
