"""Checkpoints are written where they were asked for."""

import pytest

import kbert
from kbert.training.intervals import check_intervals, log_interval, log_interval_for


@pytest.mark.parametrize(
    "every, wanted, window",
    [(120, 50, 60), (200, 50, 50), (10, 50, 10), (97, 50, 97), (500, 100, 100), (1, 50, 1), (10**12, 50, 50)],
)
def test_windows_divide_the_interval_of_checkpoints(every, wanted, window):
    assert log_interval(every, wanted) == window and every % window == 0


def test_a_window_has_one_evaluation():
    assert log_interval_for([30, 60, 90], 200, 50) == 25 and log_interval_for([50, 100], 200, 50) == 50
    assert log_interval_for([3], 200, 50) == 50 and log_interval_for([1, 2], 97, 50) == 1


def test_intervals_that_do_not_fit_are_an_error_that_says_what_does():
    check_intervals(300, 100)
    with pytest.raises(ValueError, match="120 and 100. Give --checkpoint-every 100 or 200, or --log-every 120"):
        check_intervals(120, 100)
    with pytest.raises(ValueError, match="50 and 100. Give --checkpoint-every 100, or --log-every 50"):
        check_intervals(50, 100)


def test_pretraining_takes_no_interval_that_it_would_not_keep():
    assert log_interval(120, 100) == 120
    with pytest.raises(ValueError, match="Give --checkpoint-every 100 or 200, or --log-every 120"):
        kbert.pretrain("a", vocabulary="b", steps=9, checkpoint_every=120, log_every=100)
