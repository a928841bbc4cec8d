"""The schedule that stays at its peak."""

import keras
import numpy as np
import pytest

from kbert.optim.warmup_stable_decay import WarmupStableDecay


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
    again = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert again.get_config() == schedule.get_config()


@pytest.mark.parametrize(
    "arguments", [(-1.0, 4), (0.1, -1), (float("nan"), 1), (0.1, 1, 9, -1), (0.1, 1, None, 2), (0.1, 6, 9, 4)]
)
def test_bad_arguments(arguments):
    with pytest.raises(ValueError, match="WarmupStableDecay"):
        WarmupStableDecay(*arguments)
