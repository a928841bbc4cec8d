"""The schedule whose steps do not depend on the length of the run."""

import keras
import numpy as np
import pytest

from kbert.optim.warmup_constant import WarmupConstant


def test_rises_and_stays():
    schedule = WarmupConstant(0.4, 4)
    rates = keras.ops.convert_to_numpy(schedule(np.arange(7)))
    np.testing.assert_allclose(rates, [0, 0.1, 0.2, 0.3, 0.4, 0.4, 0.4], rtol=1e-6)
    assert float(WarmupConstant(0.4, 0)(0)) == pytest.approx(0.4)
    again = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert again.get_config() == schedule.get_config()


@pytest.mark.parametrize("arguments", [(-1.0, 4), (0.1, -1), (float("nan"), 1)])
def test_bad_arguments(arguments):
    with pytest.raises(ValueError, match="WarmupConstant"):
        WarmupConstant(*arguments)
