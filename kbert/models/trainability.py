"""Which layers of a model are trainable, as plain data, and which variables differ from their layer."""

import keras

from kbert.keras_compat import all_layers, layer_variables


def trainability(model: keras.Model) -> list[list]:
    """The steps that freeze and unfreeze the layers and variables of a new model like those of this one.

    They are pairs [path, trainable], in the order in which they are to be set: setting a layer sets everything in it.
    The model itself is "", its encoder "encoder". If empty, everything is trainable.
    """
    layers = [layer for layer in all_layers(model) if layer.weights]
    state, steps = {id(layer): True for layer in layers}, []
    changed = True
    while changed:  # more than once where two layers share one
        changed = False
        for layer in layers:
            if layer.trainable != state[id(layer)]:
                changed = True
                steps.append([_path(layer, model), layer.trainable])
                state |= {id(inner): layer.trainable for inner in all_layers(layer)}
    for layer in layers:
        for variable in layer_variables(layer):
            if variable.trainable != state[id(layer)]:
                steps.append([variable.path, variable.trainable])
    return steps


def set_trainability(model: keras.Model, steps: list[list]) -> None:
    """Makes a whole model trainable, then freezes and unfreezes what `trainability` says."""
    set_trainable(model, True)
    layers = all_layers(model)
    parts = {v.path: v for layer in layers for v in layer_variables(layer)}
    parts |= {_path(layer, model): layer for layer in layers}
    for path, trainable in steps:
        if path not in parts:
            raise ValueError(f"`trainability`: the model has no layer or variable {path!r}.")
        set_trainable(parts[path], trainable)


def set_trainable(part: keras.layers.Layer | keras.Variable, value: bool) -> None:
    """Freezes or unfreezes a variable, or a layer with everything in it, whatever its state.

    On TensorFlow ``layer.trainable = True`` does nothing if the layer's own value is True already, although layers
    inside it may be frozen: tf.Module ignores an assignment of the same object.
    """
    if not isinstance(part, keras.layers.Layer):
        part.trainable = value
        return
    for layer in all_layers(part):
        keras.layers.Layer.trainable.fset(layer, value)


def _path(layer, model):
    if layer is model:
        return ""
    if isinstance(layer, keras.Model):
        return "encoder"
    return layer.path or layer.name
