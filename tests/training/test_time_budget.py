"""Runs by the clock: the learning rate follows the time, and a resumed run repeats the recorded times."""

import pytest

from kbert.optim.schedule import WarmupLinearDecay
from kbert.pretraining.run.pretraining_optimizer import make_clock_rate, make_schedule
from kbert.training.time_budget import TimeBudget


class Clock:
    def __init__(self, time=100.0):
        self.time = time

    def __call__(self):
        return self.time


def test_time_counts_from_the_first_step():
    clock = Clock()
    budget = TimeBudget(8.0, lambda share: 1 - share, clock)
    assert (budget.share, budget.learning_rate) == (0.0, 1.0)
    clock.time += 50  # before it begins
    budget.begin()
    clock.time += 2
    assert budget.tick(1) == 0.25 and budget.learning_rate == 0.75
    budget.begin()  # another call of fit: the clock runs on
    clock.time += 60
    assert budget.tick(2) == 1.0 and budget.elapsed == 62.0


def test_a_resumed_run_repeats_what_was_recorded_and_goes_on_from_there(tmp_path):
    clock = Clock()
    budget = TimeBudget(100.0, lambda share: share, clock)
    budget.restore(0, 0.0, tmp_path)
    budget.begin()
    shares = []
    for step in range(1, 6):
        clock.time += step / 3
        shares.append(budget.tick(step))
    (tmp_path / budget.FILE).open("a").write("6 1")  # killed while it wrote the line
    clock = Clock(0.0)  # of another process, in which steps are slower
    again = TimeBudget(100.0, lambda share: share, clock)
    again.restore(2, shares[1] * 100, tmp_path)
    again.begin()
    for step in range(3, 6):
        clock.time += 7
        assert again.tick(step) == shares[step - 1]
    clock.time += 7
    assert again.tick(6) == pytest.approx(shares[4] + 0.07)
    lines = (tmp_path / budget.FILE).read_text().splitlines()
    assert [int(line.split()[0]) for line in lines] == [1, 2, 3, 4, 5, 6]


def test_a_damaged_record_is_not_followed(tmp_path):
    (tmp_path / TimeBudget.FILE).write_text("1 1.0\n2 2.0\n3 2.5\nx\n4 1.5\n5 nan\n")
    clock = Clock()
    budget = TimeBudget(10.0, lambda share: share, clock)
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
    settings = {"learning_rate": 0.01, "warmup_share": 0.25, "schedule": "linear"}
    rate, schedule = make_clock_rate(settings), WarmupLinearDecay(0.01, 5, 20)
    assert [rate(step / 20) for step in range(21)] == pytest.approx([float(schedule(step)) for step in range(21)])
    constant = make_clock_rate(settings | {"schedule": "constant"})
    assert [constant(share) for share in (0.0, 0.125, 0.25, 0.9)] == pytest.approx([0.0, 0.005, 0.01, 0.01])
    assert make_clock_rate(settings | {"warmup_share": 0.0})(0.0) == 0.01
    stable = settings | {"schedule": "stable", "warmup_steps": 5, "steps": 20}
    rate, schedule = make_clock_rate(stable), make_schedule(stable)
    assert [rate(step / 20) for step in range(21)] == pytest.approx([float(schedule(step)) for step in range(21)])
    assert float(schedule(16)) == pytest.approx(0.01) and float(schedule(18)) == pytest.approx(0.005)
