"""Stages of a run, by steps and by the clock."""

import pytest

from kbert.training.stages import Stage, Stages


def test_by_steps():
    stages = Stages([Stage(0.25), Stage(0.9), Stage(1.0)], total_steps=11)
    assert stages.starts == [0, 3, 10]
    assert [stages.end(step) for step in (0, 2, 3, 9, 10)] == [3, 3, 10, 10, 11]
    assert stages.begun(2) == [0] and stages.begun(3) == [0, 3] and stages.at(10) is stages.stages[2]
    assert not stages.is_over(10) and stages.is_over(11)
    assert Stages([Stage(0.3), Stage(1.0)], total_steps=12, multiple=4).starts == [0, 4]


def test_a_stage_without_a_step_is_passed_over():
    stages = Stages([Stage(0.01), Stage(1.0)], total_steps=10)
    assert stages.begun(0) == [0, 0] and stages.at(0) is stages.stages[1] and stages.end(0) == 10


def test_by_the_clock():
    stages = Stages([Stage(0.5), Stage(0.6), Stage(1.0)])
    assert stages.end(0) is None and not stages.advance(7, 0.49)
    assert stages.advance(8, 0.55) and stages.begun(7) == [0] and stages.begun(8) == [0, 8]
    assert stages.advance(9, 0.7) and stages.starts == [0, 8, 9] and not stages.is_over(9)
    assert stages.advance(10, 1.0) and stages.is_over(10)
    again = Stages(stages.stages)
    again.restore([0, 8], 0.55)
    assert again.at(8) is stages.stages[1] and not again.is_over(8)
    again.restore([0, 8, 9], 1.0)
    assert again.is_over(10)


@pytest.mark.parametrize("ends", [(), (0.5,), (0.5, 0.5, 1.0), (0.6, 0.5, 1.0), (0.0, 1.0)])
def test_ends_must_increase_to_one(ends):
    with pytest.raises(ValueError, match="increase from above 0 to 1"):
        Stages([Stage(end) for end in ends], 10)
