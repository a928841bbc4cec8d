"""Names for the numbers that Keras logs."""

from kbert.training.training_state import optimizer_logs, updates_done


def readable_logs(logs, model) -> dict:
    """Keras' logs under kbert's names, which do not depend on how many outputs the model has.

    Keras prefixes a name with its output if there are several outputs, but not if there is one. Here "mlm_accuracy" has
    this name with and without the next-sentence head: it replaces "mlm_logits_accuracy", and the "accuracy" of a model
    whose only output is `mlm_logits`. "loss" is always the total loss; a single "logits" has no prefix.
    """
    outputs = list(model.output) if isinstance(model.output, dict) else []
    prefix = ""
    if len(outputs) == 1 and outputs[0].endswith("_logits"):
        prefix = outputs[0].removesuffix("logits")
    named = {}
    for name, value in logs.items():
        of_validation, name = ("val_", name[4:]) if name.startswith("val_") else ("", name)
        if name == "loss":
            named[of_validation + name] = value
        if name != "loss" or prefix:
            named[of_validation + prefix + name.replace("_logits_", "_")] = value
    return named


def complete_logs(logs, model) -> dict:
    """Logs as `fit_steps` passes them to callbacks, with step and learning rate, also of a plain `model.fit`."""
    if "step" in logs:
        return logs
    return {"step": updates_done(model.optimizer)} | readable_logs(logs, model) | optimizer_logs(model.optimizer)
