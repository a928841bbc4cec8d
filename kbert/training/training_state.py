"""The training state of a compiled model."""

import keras

from kbert.keras_compat import base_optimizer, learning_rate_of, strategy_of


def optimizer_logs(optimizer) -> dict:
    """The learning rate of the last update, and its gradient norm if the optimizer keeps it."""
    optimizer = base_optimizer(optimizer)
    rate = learning_rate_of(optimizer)
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        rate = rate(max(updates_done(optimizer) - 1, 0))
    logs = {"learning_rate": float(rate.numpy() if isinstance(rate, keras.Variable) else rate)}
    if hasattr(optimizer, "gradient_norm"):
        logs["gradient_norm"] = float(optimizer.gradient_norm.numpy())
    return logs


def updates_done(optimizer) -> int:
    """How often an optimizer has updated the weights."""
    return int(optimizer.iterations.numpy())


def is_chief(model) -> bool:
    """Whether this process writes the shared files of a run; True for a single process."""
    strategy = strategy_of(model)
    return strategy is None or strategy.extended.should_checkpoint
