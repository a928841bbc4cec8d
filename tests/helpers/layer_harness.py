"""What every layer must do, in one call: serialise, build, symbolic, eager, fit, mixed precision, save and load."""

import json

import keras
import numpy as np

from helpers.compare import assert_tree_equal, to_numpy


def run_layer_test(layer_class, arguments, inputs, tmp_path, paths, tolerance=0.0):
    """Checks a layer of kbert as a user of Keras would meet it.

    Args:
        layer_class, arguments: the layer is ``layer_class(**arguments)``.
        inputs: the positional arrays of a call, batch axis first.
        tmp_path: a directory to save into.
        paths: the variables' paths below the layer, as a list; seed states left out.
        tolerance: between the symbolic (compiled) and the eager run.
    """
    layer = layer_class(**arguments)
    outputs = to_numpy(layer(*inputs))

    assert layer.built
    own = [v.path.removeprefix(layer.path + "/") for v in layer.variables if "seed_generator" not in v.path]
    assert own == paths

    config = layer.get_config()
    json.dumps(config)
    again = layer_class.from_config(config)
    assert again.get_config() == config
    again(*inputs)
    again.set_weights(layer.get_weights())
    assert_tree_equal(to_numpy(again(*inputs)), outputs)

    model = functional_model(layer, inputs)
    symbolic = [(tuple(s), d) for s, d in spec_of(model.outputs)]
    concrete = [(x.shape, x.dtype.name) for x in keras.tree.flatten(outputs)]
    assert [d for _, d in symbolic] == [d for _, d in concrete]
    for (expected, _), (shape, _) in zip(symbolic, concrete, strict=True):
        assert len(expected) == len(shape)
        assert all(e in (None, s) for e, s in zip(expected, shape, strict=True)), (expected, shape)
    assert_tree_equal(model.predict(list(inputs), verbose=0), outputs, tolerance)

    model.save(tmp_path / "layer.keras")
    loaded = keras.models.load_model(tmp_path / "layer.keras")
    assert_tree_equal(to_numpy(loaded(list(inputs))), to_numpy(model(list(inputs))))

    if paths:
        check_fit(model, inputs, outputs)
    check_mixed_precision(layer_class, arguments, inputs)


def functional_model(layer, inputs):
    """The layer as a model, every axis but the last one free (the last is free too where it holds ids)."""
    symbols = [keras.Input(_free_axes(x), dtype=x.dtype.name) for x in inputs]
    return keras.Model(symbols, layer(*symbols))


def _free_axes(x):
    shape = [None] * (x.ndim - 1)
    return (*shape[:-1], x.shape[-1]) if x.dtype.kind == "f" and shape else tuple(shape)


def spec_of(tensors):
    return [(t.shape, keras.backend.standardize_dtype(t.dtype)) for t in tensors]


def check_fit(model, inputs, outputs):
    """One step towards zero in a graph lowers the loss."""
    targets = keras.tree.map_structure(np.zeros_like, outputs)
    model.compile(keras.optimizers.SGD(1e-3), loss="mse")
    model.fit(list(inputs), targets, epochs=1, batch_size=len(inputs[0]), verbose=0)
    after = to_numpy(model(list(inputs)))
    before, after = (sum(np.mean(x**2) for x in keras.tree.flatten(some)) for some in (outputs, after))
    assert np.isfinite(before) and after < before


def check_mixed_precision(layer_class, arguments, inputs):
    """Weights stay float32, and the outputs are near those of float32."""
    layer = layer_class(**arguments, dtype="mixed_bfloat16")
    full = layer_class(**arguments)
    half = layer(*inputs)
    full(*inputs)  # builds it
    full.set_weights(layer.get_weights())
    full_outputs = full(*inputs)
    assert all(keras.backend.standardize_dtype(w.dtype) == "float32" for w in layer.weights)
    for a, b in zip(keras.tree.flatten(half), keras.tree.flatten(full_outputs), strict=True):
        a, b = to_numpy(keras.ops.cast(a, "float32")), to_numpy(keras.ops.cast(b, "float32"))
        assert np.all(np.isfinite(a))
        np.testing.assert_allclose(a, b, atol=0.06 * max(1.0, float(np.max(np.abs(b)))))
