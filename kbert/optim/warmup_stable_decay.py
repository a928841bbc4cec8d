"""A learning rate that stays at its peak and falls only at the end of a run, if at all."""

from typing import Any

import keras
from keras import ops

from kbert.checks import check_option
from kbert.keras_compat import Tensor
from kbert.options import NonNegative


@keras.saving.register_keras_serializable("kbert")
class WarmupStableDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up from 0, then constant at the peak, then, in the last steps, a linear decay to 0.

    Without decay it does not depend on the length of the run, so that a run can be extended.

    Args:
        peak: the learning rate after the warm-up.
        warmup_steps: at least 0.
        total_steps: the length of the run. None: no decay.
        decay_steps: the last steps of the run, in which the rate falls to 0.

    Inputs: step, int or float tensor, counted from 0.

    Outputs: float32 of its shape.

    Raises:
        ValueError: something that is no number or negative, a decay without `total_steps`, or a run shorter than its
            warm-up and decay.

    Source: Hu et al. 2024, MiniCPM, section 4 ("warmup-stable-decay").

    Example::

        optimizer = AdamW(WarmupStableDecay(peak=1e-3, warmup_steps=500, total_steps=10_000, decay_steps=2_000))
    """

    def __init__(
        self,
        peak: float,
        warmup_steps: int,
        total_steps: int | None = None,
        decay_steps: int = 0,
        name: str = "warmup_stable_decay",
    ):
        super().__init__()
        numbers = {"peak": peak, "warmup_steps": warmup_steps, "decay_steps": decay_steps}
        numbers |= {} if total_steps is None else {"total_steps": total_steps}
        for key, value in numbers.items():
            check_option("WarmupStableDecay", key, value, NonNegative)
        is_too_short = decay_steps > 0 if total_steps is None else total_steps < warmup_steps + decay_steps
        if is_too_short:
            raise ValueError(
                "WarmupStableDecay: expected `total_steps` of at least warmup_steps + decay_steps. "
                f"Received: total_steps={total_steps!r}, {warmup_steps!r} + {decay_steps!r}"
            )
        self.peak = float(peak)
        self.warmup_steps = int(warmup_steps)
        self.total_steps = None if total_steps is None else int(total_steps)
        self.decay_steps = int(decay_steps)
        self.name = name

    def __call__(self, step: int | Tensor) -> Tensor:
        with keras.name_scope(self.name):
            step = ops.cast(step, "float32")
            fraction = ops.minimum(step / self.warmup_steps, 1.0) if self.warmup_steps else ops.ones_like(step)
            if self.decay_steps:
                left = float(self.total_steps) - ops.minimum(step, float(self.total_steps))
                fraction = ops.minimum(fraction, left / self.decay_steps)
            return self.peak * fraction

    def get_config(self) -> dict[str, Any]:
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "total_steps": self.total_steps,
            "decay_steps": self.decay_steps,
            "name": self.name,
        }
