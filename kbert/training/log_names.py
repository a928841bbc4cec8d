"""What kbert calls the numbers that Keras logs."""


def readable_logs(logs, model) -> dict:
    """Keras' logs under kbert's names, which do not depend on how many outputs the model has.

    Keras puts the output before the name where there are several, and nothing where there is one. Here "mlm_accuracy"
    is that with and without the next-sentence head: "mlm_logits_accuracy" becomes it, and so does the "accuracy" of a
    model whose one output is `mlm_logits`. "loss" is the whole loss always; a single "logits" has no prefix.

    Args:
        logs: dict of name -> number, as callbacks get it or `evaluate(return_dict=True)` gives it.
        model: the model with its outputs in a dict.

    Returns:
        dict, in the same order.

    Example::

        readable_logs(model.evaluate(data, return_dict=True), model)  # {"loss": 9.1, "mlm_accuracy": 0.07, ...}
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
