"""A learning rate schedule where several batches make an update."""

import keras
from keras import ops


@keras.saving.register_keras_serializable("kbert")
class AccumulatedSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule by updates for an optimizer that accumulates gradients: Keras 3.15 asks it by batches.

    Args:
        schedule: `LearningRateSchedule` of the number of updates.
        batches: int, `gradient_accumulation_steps` of the optimizer.

    Inputs: step, int tensor [], batches counted from 0.

    Outputs: float32 [].

    Raises:
        ValueError: `batches` below 1.

    Example::

        AdamW(AccumulatedSchedule(WarmupLinearDecay(1e-4, 100, 1000), 4), gradient_accumulation_steps=4)
    """

    def __init__(self, schedule, batches, name="accumulated_schedule"):
        super().__init__()
        if batches < 1:
            raise ValueError(f"AccumulatedSchedule: `batches` must be at least 1. Received: {batches!r}")
        self.schedule, self.batches, self.name = schedule, int(batches), name

    def __call__(self, step):
        return self.schedule(ops.floor_divide(ops.cast(step, "int32"), self.batches))

    def get_config(self):
        return {
            "schedule": keras.saving.serialize_keras_object(self.schedule),
            "batches": self.batches,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**config | {"schedule": keras.saving.deserialize_keras_object(config["schedule"])})
