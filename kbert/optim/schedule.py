"""The learning rate over the steps of a BERT run."""

from typing import Any

import keras
from keras import ops

from kbert.checks import check_option
from kbert.keras_compat import Tensor
from kbert.options import NonNegative


@keras.saving.register_keras_serializable("kbert")
class WarmupLinearDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up from 0, then a linear decay to 0 that is counted from step 0, as the original code has it.

    ::

        peak * t / warmup_steps          while t < warmup_steps
        peak * (1 - t / total_steps)     from then on; 0 from total_steps on

    The learning rate of the first step is 0. At the end of the warm-up it drops: for 1,000,000 steps with 10,000 of
    warm-up, from 0.9999 * peak to 0.99 * peak.

    Args:
        peak: the learning rate that the warm-up rises to.
        warmup_steps: at least 0.
        total_steps: at least `warmup_steps`.

    Inputs: step, int or float tensor [], counted from 0.

    Outputs: float32 [].

    Raises:
        ValueError: something that is no number or negative, or `total_steps` below 1 or `warmup_steps`.

    Source: Devlin et al. 2018, appendix A.2; google-research/bert, optimization.py.

    Example::

        optimizer = AdamW(WarmupLinearDecay(peak=5e-5, warmup_steps=100, total_steps=1000))
    """

    def __init__(self, peak: float, warmup_steps: int, total_steps: int, name: str = "warmup_linear_decay"):
        super().__init__()
        for key, value in {"peak": peak, "warmup_steps": warmup_steps, "total_steps": total_steps}.items():
            check_option("WarmupLinearDecay", key, value, NonNegative)
        if total_steps < 1 or not 0 <= warmup_steps <= total_steps:
            raise ValueError(
                "WarmupLinearDecay: expected 0 <= warmup_steps <= total_steps and total_steps >= 1. "
                f"Received: warmup_steps={warmup_steps!r}, total_steps={total_steps!r}"
            )
        self.peak = float(peak)
        self.warmup_steps = int(warmup_steps)
        self.total_steps = int(total_steps)
        self.name = name

    def __call__(self, step: int | Tensor) -> Tensor:
        with keras.name_scope(self.name):
            step = ops.cast(step, "float32")
            # 1 - step / total would lose digits towards the end; the difference of whole numbers is exact.
            left = float(self.total_steps) - ops.minimum(step, float(self.total_steps))
            decayed = self.peak * (left / self.total_steps)
            warming = self.peak * (step / max(self.warmup_steps, 1))
            return ops.where(step < self.warmup_steps, warming, decayed)

    def get_config(self) -> dict[str, Any]:
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
            "name": self.name,
        }
