"""The numbers of a run: what a compiled model says of itself, and their names."""

import keras

from kbert.keras_compat import base_optimizer, learning_rate_of, strategy_of
from kbert.optim.adamw import AdamW


def optimizer_logs(optimizer: keras.optimizers.Optimizer) -> dict[str, float]:
    """The learning rate of the last update, and its gradient norm if the optimizer keeps it."""
    optimizer = base_optimizer(optimizer)
    rate = learning_rate_of(optimizer)
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        batches = updates_done(optimizer) * (optimizer.gradient_accumulation_steps or 1)  # which Keras counts here
        rate = rate(max(batches - 1, 0))
    logs = {"learning_rate": float(rate.numpy() if isinstance(rate, keras.Variable) else rate)}
    if isinstance(optimizer, AdamW):
        logs["gradient_norm"] = float(optimizer.gradient_norm.numpy())
    return logs


def updates_done(optimizer: keras.optimizers.Optimizer) -> int:
    """How often an optimizer has updated the weights."""
    return int(keras.ops.convert_to_numpy(optimizer.iterations))


def trained_model(model: keras.Model) -> keras.Model:
    """The model that `fit` trains: of a pipeline, which callbacks see in `Pipeline.fit`, the one in it."""
    return model if getattr(model, "compiled", False) else getattr(model, "model", model)


def is_chief(model: keras.Model) -> bool:
    """Whether this process writes the shared files of a run; True for a single process."""
    strategy = strategy_of(model)
    return strategy is None or strategy.extended.should_checkpoint


def readable_logs(logs: dict, model: keras.Model) -> dict:
    """Keras' logs under kbert's names, which do not depend on how many outputs the model has.

    Keras prefixes a name with its output if there are several outputs, but not if there is one. Here "mlm_accuracy" has
    this name with and without the next-sentence head: it replaces "mlm_logits_accuracy", and the "accuracy" of a model
    whose only output is `mlm_logits`. "loss" is always the total loss; a single "logits" has no prefix.
    """
    output = getattr(model, "output", None)  # which neither a keras.Sequential nor a subclass has
    outputs = list(output) if isinstance(output, dict) else []
    prefix = ""
    if len(outputs) == 1 and outputs[0].endswith("_logits"):
        prefix = outputs[0].removesuffix("logits")
    named = {}
    for name, value in logs.items():
        validation = "val_" * name.startswith("val_")
        name = name.removeprefix("val_")
        if name == "loss":
            named[validation + name] = value
        if name != "loss" or prefix:
            named[validation + prefix + name.replace("_logits_", "_")] = value
    return named


def complete_logs(logs: dict, model: keras.Model) -> dict:
    """Logs as `train` passes them to callbacks, with step and learning rate, also of a plain `model.fit`."""
    if "step" in logs:
        return logs
    model = trained_model(model)
    return {"step": updates_done(model.optimizer)} | readable_logs(logs, model) | optimizer_logs(model.optimizer)
