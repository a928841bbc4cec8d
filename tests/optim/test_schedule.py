"""Learning rates against the transcription, the values that paper.md names, and the schedule that stays at its peak."""

import keras
import numpy as np
import pytest
from helpers.numpy_adamw import learning_rate

from kbert.optim.schedule import WarmupLinearDecay
from kbert.optim.warmup_stable_decay import WarmupStableDecay


def test_equals_the_original_at_every_step():
    schedule = WarmupLinearDecay(3e-4, 13, 57)
    for step in range(60):
        np.testing.assert_allclose(float(schedule(step)), learning_rate(step, 3e-4, 13, 57), rtol=3e-7, atol=0.0)


def test_the_last_steps_of_a_long_run_lose_no_digits():
    schedule = WarmupLinearDecay(1e-4, 10_000, 1_000_000)
    for step in (999_000, 999_990, 999_999):
        np.testing.assert_allclose(float(schedule(step)), learning_rate(step, 1e-4, 10_000, 1_000_000), rtol=3e-7)


def test_the_papers_values():
    schedule = WarmupLinearDecay(1e-4, 10_000, 1_000_000)
    assert float(schedule(0)) == 0.0
    np.testing.assert_allclose(float(schedule(9_999)), 0.9999e-4, rtol=1e-6)
    np.testing.assert_allclose(float(schedule(10_000)), 0.99e-4, rtol=1e-6)  # the jump
    assert float(schedule(1_000_000)) == 0.0
    assert float(schedule(2_000_000)) == 0.0


def test_without_warm_up_starts_at_the_peak():
    assert float(WarmupLinearDecay(0.5, 0, 10)(0)) == 0.5


@pytest.mark.parametrize("arguments", [(1e-3, 11, 10), (1e-3, -1, 10), (1e-3, 0, 0), (-1.0, 1, 10)])
def test_bad_arguments(arguments):
    with pytest.raises(ValueError, match="Received"):
        WarmupLinearDecay(*arguments)


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ((0.4, 4), [0, 0.1, 0.2, 0.3, 0.4, 0.4, 0.4, 0.4, 0.4]),
        ((0.4, 0), [0.4] * 9),
        ((0.4, 2, 8, 4), [0, 0.2, 0.4, 0.4, 0.4, 0.3, 0.2, 0.1, 0]),
        ((0.4, 0, 4, 4), [0.4, 0.3, 0.2, 0.1, 0, 0, 0, 0, 0]),
    ],
)
def test_rises_and_stays_and_falls(arguments, expected):
    schedule = WarmupStableDecay(*arguments)
    rates = keras.ops.convert_to_numpy(schedule(np.arange(9)))
    np.testing.assert_allclose(rates, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "arguments",
    [(-1.0, 4), (0.1, -1), (float("nan"), 1), (0.1, 1, 9, -1), (0.1, 1, None, 2), (0.1, 6, 9, 4), (0.1, 6, 5)],
)
def test_bad_stable_arguments(arguments):
    with pytest.raises(ValueError, match="WarmupStableDecay"):
        WarmupStableDecay(*arguments)
