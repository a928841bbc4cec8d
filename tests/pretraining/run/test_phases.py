"""Phases and ramps of a pre-training as a plan."""

import pytest

from kbert.pretraining.run.phases import count_steps, first_row, plan_stages, read_phases, read_ramp
from kbert.pretraining.run.pretraining_settings import complete_settings

PAPER = ((128, 0.9, 256, 20), (512, 0.1, 256, 80))


def test_phases_are_read_as_numbers_and_as_text():
    assert read_phases([(128, 0.9), (512, 0.1)], 256) == read_phases(["128:0.9", "512:0.1"], 256) == PAPER
    assert read_phases(["64:0.5:8", "128:0.5:4:7"], 32) == ((64, 0.5, 8, 10), (128, 0.5, 4, 7))
    assert read_phases([(64, 1.0)], 32, max_predictions=3) == ((64, 1.0, 32, 3),)


@pytest.mark.parametrize(
    "wrong", [["128"], ["128:x"], ["128:0"], ["0:1"], ["12.5:1"], ["8:1:2:3:4"], [(8, 0.5)], [], [(8, 1.0, 0)], [7]]
)
def test_wrong_phases(wrong):
    with pytest.raises(ValueError, match="pretrain: .*Received"):
        read_phases(wrong, 32)


def test_ramps():
    assert read_ramp("8:0.3") == read_ramp((8, 0.3)) == (8, 0.3) and read_ramp(None) is None
    for wrong in ("8", "8:0", "0:0.5", "8:2", (8,), 5):
        with pytest.raises(ValueError, match="batch_size_ramp"):
            read_ramp(wrong)


def test_a_plan_without_a_ramp_is_the_phases():
    stages = plan_stages(PAPER)
    assert [(stage.end, stage.phase, stage.batch_size) for stage in stages] == [(0.9, 0, 256), (1.0, 1, 256)]
    assert [(stage.sequence_length, stage.max_predictions) for stage in stages] == [(128, 20), (512, 80)]


def test_a_ramp_doubles_and_passes_over_borders_of_phases():
    stages = plan_stages(((128, 0.3, 48, 20), (512, 0.7, 12, 80)), (8, 0.6))
    found = [(round(stage.end, 6), stage.phase, stage.batch_size) for stage in stages]
    assert found == [(0.2, 0, 8), (0.3, 0, 16), (1.0, 1, 12)]


def test_rows_are_counted_within_a_phase():
    stages = plan_stages(((128, 0.5, 16, 20), (512, 0.5, 8, 80)), (4, 0.25))
    assert [stage.batch_size for stage in stages] == [4, 8, 16, 8]
    starts = [0, 10, 20, 40]
    assert first_row(stages, starts[:1], 9) == 36
    assert first_row(stages, starts[:3], 21) == 10 * 4 + 10 * 8 + 16
    assert first_row(stages, starts, 40) == 0 and first_row(stages, starts, 43) == 24


def test_every_phase_has_a_step():
    assert count_steps(plan_stages(PAPER), 40) == [36, 4]
    assert count_steps(plan_stages(PAPER, (1, 0.5)), 10)[:3] == [1, 0, 1]  # of a ramp, which is only so long
    with pytest.raises(ValueError, match=r"phases\[1\], 1.00% of 40 steps, with 512 tokens"):
        count_steps(plan_stages(read_phases([(128, 0.99), (512, 0.01)], 8)), 40)
    with pytest.raises(ValueError, match=r"phases\[0\], 10.00% of 8 steps, with 128 tokens"):
        count_steps(plan_stages(read_phases([(128, 0.1), (512, 0.9)], 8)), 8, multiple=4)


def test_shares_that_are_not_binary_fractions_end_at_one():
    phases = read_phases([(8 * n, 0.1) for n in range(1, 11)], 4)
    assert plan_stages(phases)[-1].end == 1.0


def test_named_settings_fill_only_what_is_not_given():
    assert complete_settings(None, {}) == {
        "batch_size": 32,
        "learning_rate": 1e-4,
        "schedule": "linear",
        "bias_correction": False,
    }
    small = complete_settings("small-budget", {"batch_size": 8, "warmup_steps": 5, "phases": ((64, 1.0),)})
    assert small == {
        "learning_rate": 1e-3,
        "schedule": "stable",
        "dropout": 0.0,
        "bias_correction": True,
        "initializer_stddev": "scaled",
        "position_initializer": "sinusoidal",
    }
    assert "phases" not in complete_settings("paper", {"sequence_length": 128})
    with pytest.raises(ValueError, match="`settings` must be one of .'paper', 'small-budget'.. Received: 'best'"):
        complete_settings("best", {})
