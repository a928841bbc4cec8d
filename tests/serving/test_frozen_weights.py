"""Exports whose weights are constants: the same answers, and every weight once in the graph."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf
from helpers.served_models import variable_bytes
from helpers.slow_but import slow_but

import kbert
from kbert.serving.frozen_weights import FrozenWeights
from kbert.serving.saved_model_file import SavedModelFile


def _is_weight(node, dtype=tf.float32):
    return node.op == "Const" and node.attr["dtype"].type == dtype.as_datatype_enum


def _bytes_of_weights(model, dtype=tf.float32):
    return sum(len(node.attr["value"].tensor.tensor_content) for node in model.nodes if _is_weight(node, dtype))


@pytest.mark.parametrize("kind", slow_but(("multiple_choice",), ("multiple_choice", "encoder")))
def test_answers_are_the_same_and_weights_are_stored_once(served_models, kind, tmp_path):
    served = served_models[kind]
    path = kbert.export(served.pipeline, tmp_path / "frozen", frozen_weights=True)
    assert json.loads((path / "card.json").read_text("utf-8"))["frozen_weights"] is True
    assert variable_bytes(path) == 0 < (plain := variable_bytes(served.path))
    constants = _bytes_of_weights(SavedModelFile(path))
    assert 0.999 * plain < constants < 1.02 * plain  # once, of all signatures: an encoder has four
    columns = {name: tf.constant(values) for name, values in served.columns.items()}
    loaded = tf.saved_model.load(str(path))
    for name, expected in ((name, served.loaded[name](**columns)) for name in served.signatures):
        for key, value in loaded.signatures[name](**columns).items():
            if value.dtype == tf.string:
                np.testing.assert_array_equal(value.numpy(), expected[key].numpy(), err_msg=f"{name}: {key}")
            else:
                np.testing.assert_allclose(value.numpy(), expected[key].numpy(), atol=1e-5, err_msg=f"{name}: {key}")


@pytest.mark.slow  # test_answers_are_the_same_and_weights_are_stored_once
def test_the_bodies_of_loops_get_no_weights_from_outside(served_models, tmp_path):
    """A weight that is an input of a loop's body is no constant there, and would be packed for every product."""
    pipeline = served_models["single"].pipeline
    path = kbert.export(pipeline, tmp_path / "frozen", precision="bfloat16", frozen_weights=True)
    model = SavedModelFile(path)
    loops = [node for node in model.nodes if node.op in ("While", "StatelessWhile")]
    assert loops and not any(
        dtype == tf.bfloat16.as_datatype_enum for loop in loops for dtype in loop.attr["T"].list.type
    )
    half = variable_bytes(served_models["single"].path) / 2
    assert 0.99 * half < _bytes_of_weights(model, tf.bfloat16) < 1.02 * half  # once, though `classify` is another graph
    text = tf.constant(["a good film"])
    answers = tf.saved_model.load(str(path)).signatures["serving_default"](text=text)
    expected = pipeline.predict(["a good film"], verbose=0)
    np.testing.assert_allclose(answers["probabilities"].numpy(), expected["probabilities"], atol=0.03)


def test_what_a_graph_cannot_hold_is_refused():
    large = types.SimpleNamespace(shape=(2**20, 600), dtype="float32")
    with pytest.raises(ValueError, match=r"can hold 2,080,374,784 bytes.*Received: 2,516,582,400 bytes. Export in"):
        FrozenWeights([large])
