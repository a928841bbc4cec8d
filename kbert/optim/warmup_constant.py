"""A learning rate that does not depend on the length of the run."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("kbert")
class WarmupConstant(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up from 0, then constant at the peak; independent of the total steps, so a run can be extended.

    Args:
        peak: float, the learning rate after the warm-up.
        warmup_steps: int >= 0.

    Inputs: step, int or float tensor, counted from 0.

    Outputs: float32 of its shape.

    Raises:
        ValueError: a negative number.

    Example::

        optimizer = AdamW(WarmupConstant(peak=1e-4, warmup_steps=100))
    """

    def __init__(self, peak, warmup_steps, name="warmup_constant"):
        super().__init__()
        if not peak >= 0.0 or warmup_steps < 0:
            raise ValueError(
                "WarmupConstant: `peak` and `warmup_steps` must not be negative. "
                f"Received: peak={peak!r}, warmup_steps={warmup_steps!r}"
            )
        self.peak = float(peak)
        self.warmup_steps = int(warmup_steps)
        self.name = name

    def __call__(self, step):
        with keras.name_scope(self.name):
            step = ops.cast(step, "float32")
            if not self.warmup_steps:
                return ops.full_like(step, self.peak)
            return self.peak * ops.minimum(step / self.warmup_steps, 1.0)

    def get_config(self):
        return {"peak": self.peak, "warmup_steps": self.warmup_steps, "name": self.name}
