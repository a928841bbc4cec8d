"""The stages of a run and where it is: the state that `fit_steps` and its callbacks share."""

import bisect
import dataclasses
import math
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from kbert.keras_compat import strategy_of
from kbert.training.checkpoints import Checkpoints
from kbert.training.divergence import check_finite, check_window
from kbert.training.flops import batch_flops
from kbert.training.logs import History, best_step, is_chief, optimizer_logs, readable_logs
from kbert.training.memory import batch_shape
from kbert.training.time_budget import TimeBudget
from kbert.weights.step_paths import CHECKPOINTS


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of a run whose batches all have the same shape.

    Attributes:
        end: float in (0, 1], where it ends, as a fraction of the run.
        validation_data: as for `model.fit`.
        real_fraction: float, the fraction of its tokens that are not padding, or None.
        phase: int, the number of the phase of a pre-training that it belongs to.
        batch_size, sequence_length, max_predictions: ints, of a pre-training: rows of an update, tokens of a row, and
            how many of them are masked at most.
    """

    end: float = 1.0
    validation_data: Any = None
    real_fraction: float | None = None
    phase: int = 0
    batch_size: int | None = None
    sequence_length: int | None = None
    max_predictions: int | None = None


def first_steps(stages: Sequence[Stage], total_steps: int, multiple: int = 1) -> list[int]:
    """The first step of every stage of a run of `total_steps`; stages end at multiples of a number of steps."""
    return [0, *(round(stage.end * total_steps / multiple) * multiple for stage in stages[:-1])]


@dataclasses.dataclass
class Window:
    """The steps of a run that have no record yet, and what their logs are made of."""

    first_step: int  # the step before them
    part: dict | None = None  # what an interrupted run had done of it, as `RunState.interrupted_window` gave it
    losses: list = dataclasses.field(default_factory=list)  # (step, loss), read at the end: on a GPU reading waits
    logs: dict = dataclasses.field(default_factory=dict)
    batches: int = 0
    first_batches: int = 0  # at the end of the first call of the step
    paused: float = 0.0  # seconds of evaluation since the last step, which are not training
    start: float = dataclasses.field(default_factory=time.perf_counter)
    first_end: float = 0.0
    end: float = 0.0

    def count(self, batches: int, logs: dict) -> None:
        """Takes note that so many batches are done."""
        self.end = time.perf_counter()
        self.start += self.paused
        self.first_end += self.paused
        self.paused = 0.0
        self.batches = batches
        self.logs = logs
        self.losses.append((self.first_step + batches, logs["loss"]))
        if not self.first_batches:
            self.first_end = self.end
            self.first_batches = batches


class RunState:
    """Where a run is. Its callbacks share it, and do not know each other.

    Without `total_steps` stages end by the clock, when `advance` is told so. Every stage then has at least one step,
    also where a step lasts longer than the stage: the run may end a step later for each.

    Example::

        run = RunState([Stage(0.9), Stage(1.0)], total_steps=1000)
        run.stage_end(20), run.begun(950)  # 900, [0, 900]
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        total_steps: int | None = None,
        multiple: int = 1,
        budget: TimeBudget | None = None,
        real_tokens: float | None = None,
    ):
        self.stages = list(stages)
        self.total_steps = total_steps
        ends = [stage.end for stage in self.stages]
        if ends != sorted(set(ends)) or not ends or ends[0] <= 0 or ends[-1] != 1:
            raise ValueError(f"fit_steps: expected stages with ends that increase from above 0 to 1. Received: {ends}")
        # The first step of every stage; by the clock of those that have begun.
        self.starts = [0] if total_steps is None else first_steps(self.stages, total_steps, multiple)
        self.budget = budget
        self.real_tokens = real_tokens  # of a batch on average, where batches differ in length
        self.step = 0  # updates done in the whole run
        self.window = Window(0)
        self.scores: dict[str, float] = {}  # of the dev set, that are in no record yet
        self.checkpoints: Checkpoints | None = None  # without a directory
        self.history = History(None)
        self.rate_of_step = 0.0  # by the clock, the learning rate of the last step
        self._share = 0.0
        self._keep_best = False

    # What is stored

    def open(
        self, model: keras.Model, output: pathlib.Path | None, keep: int, keep_every: int | None, keep_best: bool
    ) -> dict | None:
        """Goes on from the last checkpoint in a directory; None: nothing is stored.

        Returns what the checkpoint has of a window whose steps are all done, but which has no record yet; else None.
        """
        facts = {"elapsed": 0.0, "starts": [0]}
        if output is not None:
            self.checkpoints = Checkpoints(output / CHECKPOINTS, model, keep, keep_every)
            self._keep_best = keep_best
            self.step = self.checkpoints.restore()
            self.history = History(output / "history.jsonl", self.step, writes=is_chief(model))
            facts = self.checkpoints.facts if self.step else facts
        if self.budget is not None:
            self.budget.restore(self.step, facts["elapsed"], output)
            self.restore(facts["starts"], self.budget.fraction)
        interrupted = facts.get("window")
        is_whole = interrupted is not None and interrupted["whole"]
        self.window = Window(self.step, None if is_whole else interrupted)
        recorded = self.history.records[-1]["step"] if self.history.records else None
        return interrupted if is_whole and recorded != self.step else None

    def save(self, model: keras.Model, **facts) -> None:
        """Writes a checkpoint, if the run has a directory, and this process writes."""
        if self.checkpoints is None or not is_chief(model):
            return
        clock = {} if self.budget is None else {"elapsed": self.budget.elapsed, "starts": self.starts}
        best = best_step(self.history.records) if self._keep_best else None
        self.checkpoints.save(self.step, clock | facts, best)

    # Stages

    def restore(self, starts: Sequence[int], fraction: float = 0.0) -> None:
        """Sets what a checkpoint recorded of a run by the clock: `starts`, and the fraction of the run that is done."""
        self.starts, self._share = list(starts), fraction

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

    def advance(self, step: int, fraction: float) -> bool:
        """Tells a run by the clock that `fraction` of it is over after `step` steps; returns whether its stage ends."""
        self._share = fraction
        ends = fraction >= self.stages[len(self.starts) - 1].end
        if ends and len(self.starts) < len(self.stages):
            self.starts.append(step)
        return ends

    # The window of steps that has no record yet

    def begin_fit(self, dataset: Any, size: int) -> None:
        """Says what the next call of `fit` trains on, and of how many steps a window is."""
        rows, length = batch_shape(dataset)
        self.tokens = (rows or 0) * (length or 0)  # 0: not known
        self.dataset = dataset
        self.size = size
        self.real_fraction = self.stage_at(self.step).real_fraction

    def begin_window(self, model: keras.Model) -> None:
        """Begins a window, or goes on with the part of one that an interrupted run has done."""
        part = None if self.window.batches else self.window.part  # the first window of a resumed run has one
        self.window = Window(self.step, part)
        if part is not None:
            _set_sums(model, part["metrics"])

    def check(self, model: keras.Model) -> None:
        """Raises FloatingPointError if the steps of the window so far were not finite."""
        check_window(model, self.window.first_step, self.window.losses, {})
        check_finite(model, self.window.first_step, self.step)

    def interrupted_window(self, model: keras.Model) -> dict:
        """What the checkpoint keeps of a window that has no record yet, as JSON can hold it.

        Keys are "whole", whether all its steps are done; "logs" so far; "metrics", the sums that these are made of.
        """
        logs = {name: float(value) for name, value in self.window.logs.items()}
        self.complete(model, logs)
        logs = {name: value if np.isfinite(value) else None for name, value in logs.items()}
        whole = self.window.batches >= self.size or bool(model.stop_training)
        return {"whole": whole, "logs": logs, "metrics": None if whole else _sums(model)}

    def complete(self, model: keras.Model, logs: dict) -> None:
        """Checks the logs of a window, or of its part so far, and adds to them."""
        window = self.window
        check_window(model, window.first_step, window.losses, logs)
        named = readable_logs(logs, model)
        logs.clear()  # in place: the other callbacks get the same dict
        logs.update({"step": self.step, "total_steps": self.total_steps} | named | optimizer_logs(model.optimizer))
        if self.budget is not None:
            logs["learning_rate"] = self.rate_of_step  # the optimizer has that of the next step
            logs |= {"time_fraction": self.budget.fraction, "seconds_left": self.budget.seconds - self.budget.elapsed}
            del logs["total_steps"]
        logs.update(self._speed(model) | self.scores)
        self.scores = {}
        if window.part is not None:
            before = window.part["logs"]
            logs["seconds"] += before["seconds"]
            for name in before.keys() - logs.keys():  # scores
                logs[name] = before[name]

    def _speed(self, model) -> dict[str, float]:
        """Without the first batch of a window if there are others: it may include tracing, and validation before it."""
        window = self.window
        batches = window.batches - window.first_batches or window.batches
        begun = window.start if batches == window.batches else window.first_end
        seconds = max(window.end - begun, 1e-9)
        speed = {"seconds": window.end - window.start, "steps_per_second": batches / seconds}
        if self.tokens:
            speed["tokens_per_second"] = self.tokens * batches / seconds
            if self.real_fraction is not None:
                speed["real_tokens_per_second"] = self.real_fraction * speed["tokens_per_second"]
            if flops := batch_flops(model, self.dataset):
                speed["flops_per_second"] = flops * batches / seconds
        if self.real_tokens:
            speed["real_tokens_per_second"] = self.real_tokens * batches / seconds
        return speed


def _sums(model: keras.Model) -> list | None:
    """The values of the metrics' variables, a list for each; None with several replicas, which have parts of them."""
    strategy = strategy_of(model)
    if strategy is not None and strategy.num_replicas_in_sync > 1:
        return None
    values = [keras.ops.convert_to_numpy(variable).ravel() for variable in model.metrics_variables]
    return [[number if np.isfinite(number) else None for number in value.tolist()] for value in values]


def _set_sums(model: keras.Model, values: list | None) -> None:
    variables = model.metrics_variables
    if values is None or [math.prod(variable.shape) for variable in variables] != [len(value) for value in values]:
        return
    for variable, value in zip(variables, values, strict=True):
        variable.assign(np.reshape(np.array(value, "float64"), variable.shape).astype(variable.dtype))
