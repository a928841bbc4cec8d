"""Models that many tests train, each from the same beginning, built and traced once."""

_REUSED = {}


def reused(build, *arguments):
    """`build(*arguments)`, a compiled model, as it is when it is new; its steps are traced once in a process.

    The first call builds it; each later one returns the same object with the values that all its variables had.
    """
    key = build, arguments
    if key not in _REUSED:
        model = build(*arguments)
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        _REUSED[key] = model, [(v, v.numpy()) for v in (*model.variables, *model.optimizer.variables)]
    model, values = _REUSED[key]
    for variable, value in values:
        variable.assign(value)
    return model
