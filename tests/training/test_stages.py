"""Stages of a run by steps, and runs by the clock, whose learning rate follows the time."""

import itertools

import keras
import pytest
from helpers import tiny_pretraining as tiny

from kbert.optim.adamw import AdamW
from kbert.optim.schedule import WarmupLinearDecay
from kbert.pretraining.run.run_pretraining import make_clock_rate, make_schedule
from kbert.training.resume import fit_steps
from kbert.training.run_state import RunState, Stage
from kbert.training.time_budget import TimeBudget


def test_by_steps():
    stages = RunState([Stage(0.25), Stage(0.9), Stage(1.0)], total_steps=11)
    assert stages.starts == [0, 3, 10]
    assert [stages.stage_end(step) for step in (0, 2, 3, 9, 10)] == [3, 3, 10, 10, 11]
    assert stages.begun(2) == [0] and stages.begun(3) == [0, 3] and stages.stage_at(10) is stages.stages[2]
    assert not stages.is_over(10) and stages.is_over(11)
    assert RunState([Stage(0.3), Stage(1.0)], total_steps=12, multiple=4).starts == [0, 4]


def test_a_stage_without_a_step_is_passed_over():
    stages = RunState([Stage(0.01), Stage(1.0)], total_steps=10)
    assert stages.begun(0) == [0, 0] and stages.stage_at(0) is stages.stages[1] and stages.stage_end(0) == 10


def test_by_the_clock():
    stages = RunState([Stage(0.5), Stage(0.6), Stage(1.0)])
    assert stages.stage_end(0) is None and not stages.advance(7, 0.49)
    assert stages.advance(8, 0.55) and stages.begun(7) == [0] and stages.begun(8) == [0, 8]
    assert stages.advance(9, 0.7) and stages.starts == [0, 8, 9] and not stages.is_over(9)
    assert stages.advance(10, 1.0) and stages.is_over(10)
    again = RunState(stages.stages)
    again.restore([0, 8], 0.55)
    assert again.stage_at(8) is stages.stages[1] and not again.is_over(8)
    again.restore([0, 8, 9], 1.0)
    assert again.is_over(10)


def test_by_the_clock_every_stage_has_a_step():
    stages = RunState([Stage(0.5), Stage(0.6), Stage(1.0)])
    assert stages.advance(7, 0.7) and stages.starts == [0, 7] and stages.stage_at(7) is stages.stages[1]
    assert stages.advance(8, 1.0) and stages.starts == [0, 7, 8] and not stages.is_over(8)
    again = RunState(stages.stages)
    again.restore([0, 7, 8], 1.0)
    for one in (stages, again):
        assert not one.is_over(8) and one.stage_at(8) is stages.stages[2]
        assert one.advance(9, 1.0) and one.is_over(9) and one.starts == [0, 7, 8]


def constant_rate():
    return tiny.compiled_model(AdamW(0.01))


@pytest.mark.parametrize("ends", [(), (0.5,), (0.5, 0.5, 1.0), (0.6, 0.5, 1.0), (0.0, 1.0)])
def test_ends_must_increase_to_one(ends):
    with pytest.raises(ValueError, match="increase from above 0 to 1"):
        RunState([Stage(end) for end in ends], 10)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("hook, last", [(None, 8), ("on_train_batch_begin", 4), ("on_epoch_end", 4)])
def test_a_callback_stops_a_run_also_where_a_stage_ends(hook, last):
    """Where the clock ends it: both end the call of `fit`."""

    def stop(*arguments, **logs):
        if int(model.optimizer.iterations.numpy()) >= 3:
            model.stop_training = True

    seconds = itertools.count()
    budget = TimeBudget(8.0, lambda fraction: 0.01, lambda: float(next(seconds)))
    model = tiny.reused(constant_rate)
    model.stop_training = False
    stages = [Stage(0.5), Stage(1.0)]
    history = fit_steps(
        model,
        lambda start_step, starts: tiny.make_dataset(start_step).repeat(),
        None,
        window=4,
        stages=stages,
        budget=budget,
        callbacks=[keras.callbacks.LambdaCallback(**({hook: stop} if hook else {}))],
    )
    assert history[-1]["step"] == last


class Clock:
    def __init__(self, time=100.0):
        self.time = time

    def __call__(self):
        return self.time


def test_time_counts_from_the_first_step():
    clock = Clock()
    budget = TimeBudget(8.0, lambda fraction: 1 - fraction, clock)
    assert (budget.fraction, budget.learning_rate) == (0.0, 1.0)
    clock.time += 50  # before it begins
    budget.begin()
    clock.time += 2
    assert budget.tick(1) == 0.25 and budget.learning_rate == 0.75
    budget.begin()  # another call of fit: the clock runs on
    clock.time += 60
    assert budget.tick(2) == 1.0 and budget.elapsed == 62.0


def test_a_resumed_run_repeats_what_was_recorded_and_goes_on_from_there(tmp_path):
    clock = Clock()
    budget = TimeBudget(100.0, lambda fraction: fraction, clock)
    budget.restore(0, 0.0, tmp_path)
    budget.begin()
    fractions = []
    for step in range(1, 6):
        clock.time += step / 3
        fractions.append(budget.tick(step))
    (tmp_path / budget.FILE).open("a").write("6 1")  # killed while it wrote the line
    clock = Clock(0.0)  # of another process, in which steps are slower
    again = TimeBudget(100.0, lambda fraction: fraction, clock)
    again.restore(2, fractions[1] * 100, tmp_path)
    again.begin()
    for step in range(3, 6):
        clock.time += 7
        assert again.tick(step) == fractions[step - 1]
    clock.time += 7
    assert again.tick(6) == pytest.approx(fractions[4] + 0.07)
    lines = (tmp_path / budget.FILE).read_text().splitlines()
    assert [int(line.split()[0]) for line in lines] == [1, 2, 3, 4, 5, 6]


def test_a_damaged_record_is_not_followed(tmp_path):
    (tmp_path / TimeBudget.FILE).write_text("1 1.0\n2 2.0\n3 2.5\nx\n4 1.5\n5 nan\n")
    clock = Clock()
    budget = TimeBudget(10.0, lambda fraction: fraction, clock)
    budget.restore(1, 1.0, tmp_path)
    budget.begin()
    assert [budget.tick(step) for step in (2, 3)] == [0.2, 0.25]
    clock.time += 1
    assert budget.tick(4) == 0.35
    assert (tmp_path / TimeBudget.FILE).read_text() == "1 1.0\n2 2.0\n3 2.5\n4 3.5\n"


@pytest.mark.parametrize("seconds", [0, -1.0, float("inf"), float("nan"), True])
def test_a_time_must_be_positive(seconds):
    with pytest.raises(ValueError, match="`seconds` must be a finite number above 0"):
        TimeBudget(seconds, float)


def test_the_rate_by_the_clock_is_the_schedule_by_steps():
    settings = {"learning_rate": 0.01, "warmup_proportion": 0.25, "schedule": "linear"}
    rate, schedule = make_clock_rate(settings), WarmupLinearDecay(0.01, 5, 20)
    assert [rate(step / 20) for step in range(21)] == pytest.approx([float(schedule(step)) for step in range(21)])
    constant = make_clock_rate(settings | {"schedule": "constant"})
    assert [constant(fraction) for fraction in (0.0, 0.125, 0.25, 0.9)] == pytest.approx([0.0, 0.005, 0.01, 0.01])
    assert make_clock_rate(settings | {"warmup_proportion": 0.0})(0.0) == 0.01
    stable = settings | {"schedule": "stable", "warmup_steps": 5, "steps": 20}
    rate, schedule = make_clock_rate(stable), make_schedule(stable)
    assert [rate(step / 20) for step in range(21)] == pytest.approx([float(schedule(step)) for step in range(21)])
    assert float(schedule(16)) == pytest.approx(0.01) and float(schedule(18)) == pytest.approx(0.005)
