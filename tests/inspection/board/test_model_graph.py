"""The graphs of a model: every layer is a node, and what flows between them is an edge."""

import keras
import pytest
import tensorflow as tf
from helpers import tiny_pretraining as tiny
from tensorboard.plugins.graph.keras_util import keras_model_to_graph_def

from kbert.inspection.board.model_graph import conceptual_graph, operation_graph, trace_model


@pytest.fixture(scope="module")
def traced():
    model = tiny.model()
    return model, trace_model(model)


def drawn(model, graph):
    """Name of a node → names of those it gets something from, as TensorBoard draws them."""
    nodes = keras_model_to_graph_def(conceptual_graph(graph, model)).node
    return {
        node.name.removeprefix(f"{model.name}/"): {i.removeprefix(f"{model.name}/") for i in node.input}
        for node in nodes
    }


def test_the_graph_of_operations_holds_every_layer(traced):
    model, graph = traced
    definition = tf.compat.v1.GraphDef.FromString(operation_graph(graph, model))
    names = [node.name for node in definition.node]
    assert len(set(names)) == len(names) == len(graph.get_operations())
    block = f"{model.name}/{model.encoder.name}/encoder_block_0"
    for layer in ("attention/query", "feed_forward/intermediate", "attention_layer_norm"):
        assert any(name.startswith(f"{block}/{layer}/") for name in names), layer
    sources = {source.removeprefix("^").split(":")[0] for node in definition.node for source in node.input}
    assert sources <= set(names)
    assert not any("dropout" in name for name in names)


def test_layers_are_connected_as_in_the_paper(traced):
    model, nodes = traced[0], drawn(*traced)
    ends = {name: name.split("/")[-1] for name in nodes}
    assert {"token_ids", "segment_ids", "padding_mask", "mask_positions"} <= nodes.keys()
    assert all(source in nodes for sources in nodes.values() for source in sources)

    def reaches(name, other, seen=()):
        return name == other or any(reaches(one, other, (*seen, name)) for one in nodes[name] if one not in seen)

    def named(end):
        found = [name for name, last in ends.items() if last == end]
        assert len(found) == 1, (end, found)
        return found[0]

    for projection in ("query", "key", "value"):
        assert reaches(named(projection), f"{model.encoder.name}/embeddings/token_embedding")
        assert not reaches(named(projection), "mask_positions")
    block = named("query").split("/attention/")[0]
    assert reaches(f"{block}/feed_forward_layer_norm", f"{block}/attention_layer_norm")
    assert reaches(f"{block}/attention_layer_norm", named("query"))
    head = [name for name in nodes if "masked_lm_head" in name]
    assert any(reaches(name, "mask_positions") for name in head)
    pair = [name for name in nodes if "next_sentence_head" in name]
    assert pair and not any(reaches(name, "mask_positions") for name in pair)
    assert any("pooler" in source for name in pair for source in nodes[name])


def test_a_model_without_known_inputs_has_no_graph():
    class Own(keras.Model):
        def call(self, x):
            return x

    assert trace_model(Own()) is None


def test_plain_keras_models_have_graphs():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="one"), keras.layers.Dense(2, name="two")])
    nodes = drawn(model, trace_model(model))
    assert nodes["two"] == {"one"}
