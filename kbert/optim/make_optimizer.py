"""The optimizer of a run."""

import keras

from kbert.optim.adamw import AdamW
from kbert.optim.lamb import Lamb
from kbert.options import Optimization


def make_optimizer(
    options: Optimization, learning_rate: float | keras.optimizers.schedules.LearningRateSchedule
) -> AdamW:
    """AdamW or LAMB with these options; the learning rate is a number or a schedule."""
    if options.optimizer == "lamb":
        return Lamb(learning_rate, weight_decay=options.weight_decay, layer_decay=options.layer_decay)
    return AdamW(
        learning_rate,
        weight_decay=options.weight_decay,
        bias_correction=options.bias_correction,
        layer_decay=options.layer_decay,
    )
