"""What every model must do for a user of Keras, in one call."""

import json

import keras

from helpers.compare import assert_tree_equal, to_numpy


def run_model_test(make, batch, labels, losses, tmp_path, run_eagerly):
    """Checks a model of kbert as a user of Keras would meet it.

    Args:
        make: makes the model, dropout 0; takes `dtype`.
        batch: the inputs, a dict of arrays.
        labels: by output name, as `fit` takes them.
        losses: by output name, as `compile` takes them.
        tmp_path: a directory to save into.
        run_eagerly: whether to train op by op, which is sooner; for models that differ from another one, which trains
            in a graph, in their last linear layer alone.
    """
    model = make()
    outputs = to_numpy(model(batch))
    check_config(model, batch, outputs)
    check_lengths(model, batch)
    check_saving(model, make, batch, outputs, tmp_path)
    check_training(model, batch, labels, losses, tmp_path, run_eagerly)
    check_mixed_precision(make, batch, outputs)


def variable_specs(model):
    return [(v.path, tuple(v.shape)) for v in model.weights]


def check_config(model, batch, outputs):
    """The config is plain data and builds the same model; cloning copies it too (all but a tied table)."""
    config = model.get_config()
    json.dumps(config)
    again = type(model).from_config(config)
    assert again.get_config() == config and again.config == model.config and again.task == model.task
    assert variable_specs(again) == variable_specs(model)
    assert again.pretrained is None
    lines = []
    model.summary(print_fn=lines.append)
    assert model.name in "".join(lines)
    copies = [again]
    if not getattr(model, "tied", False):
        copies.append(keras.models.clone_model(model))  # a plain functional model, as of every subclass in Keras
    for copy in copies:
        copy.set_weights(model.get_weights())
        assert_tree_equal(to_numpy(copy(batch)), outputs)


def check_lengths(model, batch):
    """The model takes any batch size and length, and the symbolic shapes are those of the outputs."""
    shorter = {name: array[:2, ..., :5] for name, array in batch.items()}
    if "mask_positions" in shorter:
        shorter["mask_positions"] = shorter["mask_positions"] % 5
    actual = to_numpy(model(shorter))
    for symbol, array in zip(keras.tree.flatten(model.output), keras.tree.flatten(actual), strict=True):
        assert len(symbol.shape) == array.ndim
        assert all(s in (None, n) for s, n in zip(symbol.shape, array.shape, strict=True)), (symbol.shape, array.shape)
        assert keras.backend.standardize_dtype(symbol.dtype) == array.dtype.name


def check_saving(model, make, batch, outputs, tmp_path):
    """predict, .keras, .weights.h5 and a SavedModel agree with the eager call."""
    assert_tree_equal(model.predict(batch, verbose=0), outputs, 1e-6)
    model.pretrained = {"not": object()}  # cannot be saved, need not be
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(model) and loaded.pretrained is None
    assert_tree_equal(to_numpy(loaded(batch)), outputs)
    model.save_weights(tmp_path / "model.weights.h5")
    other = make()
    other.load_weights(tmp_path / "model.weights.h5")
    assert_tree_equal(to_numpy(other(batch)), outputs)
    check_export(model, batch, outputs, tmp_path / "exported")


def check_export(model, batch, outputs, path):
    """What Keras users expect of `model.export`, with every weight stored once."""
    import tensorflow as tf

    model.export(path, verbose=False)
    artifact = tf.saved_model.load(path)
    tensors = {name: tf.constant(array) for name, array in batch.items()}
    for served in (artifact.serve(tensors), artifact.signatures["serving_default"](**tensors)):
        assert_tree_equal(tf.nest.map_structure(lambda x: x.numpy(), served), outputs, 1e-6)
    stored = [name for name, _ in tf.train.list_variables(str(path / "variables/variables")) if "GRAPH" not in name]
    assert len(stored) <= len(model.variables)
    bytes_of_weights = sum(weight.numpy().nbytes for weight in model.weights)
    data = sum(file.stat().st_size for file in (path / "variables").glob("variables.data*"))
    assert bytes_of_weights <= data < 1.2 * bytes_of_weights + 4096


def check_training(model, batch, labels, losses, tmp_path, run_eagerly):
    """fit lowers the loss and evaluate sees it; the whole state survives .keras."""
    rows = {"batch_size": len(batch["token_ids"]), "verbose": 0}
    model.compile(keras.optimizers.SGD(0.1), loss=losses, jit_compile=False, run_eagerly=run_eagerly)
    first = model.fit(batch, labels, epochs=4, **rows).history["loss"][0]
    after = model.evaluate(batch, labels, **rows, return_dict=True)["loss"]
    assert after < first
    model.save(tmp_path / "trained.keras")
    loaded = keras.models.load_model(tmp_path / "trained.keras")
    assert int(loaded.optimizer.iterations.numpy()) == 4
    assert loaded.evaluate(batch, labels, **rows, return_dict=True)["loss"] == after


def check_mixed_precision(make, batch, outputs):
    """Weights stay float32, outputs stay near; the policy survives the config."""
    half = make(dtype="mixed_bfloat16")
    assert all(keras.backend.standardize_dtype(w.dtype) == "float32" for w in half.weights)
    assert half.dtype_policy.name == "mixed_bfloat16"
    assert type(half).from_config(half.get_config()).encoder.blocks[0].compute_dtype == "bfloat16"
    full = make()
    full.set_weights(half.get_weights())
    expected, actual = to_numpy(full(batch)), half(batch)
    if full.task != "encoder":
        assert all(keras.backend.standardize_dtype(x.dtype) == "float32" for x in keras.tree.flatten(actual))
    actual = to_numpy(keras.tree.map_structure(lambda x: keras.ops.cast(x, "float32"), actual))
    assert_tree_equal(actual, expected, 0.1)
