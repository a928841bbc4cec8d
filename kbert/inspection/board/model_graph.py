"""A model as graphs for TensorBoard: its operations, and its layers with what flows between them.

Keras' own callback (3.15) writes no graph of operations, and for a model with a dict of inputs a graph of layers
without edges. Here both come from one trace of the forward pass on TensorFlow.
"""

import re
from typing import TYPE_CHECKING

import keras

from kbert.keras_compat import all_layers

if TYPE_CHECKING:
    import tensorflow as tf

_PLUMBING = {
    *("Cast", "Const", "ConcatV2", "ExpandDims", "Identity", "IdentityN", "NoOp", "Pack", "Placeholder", "Prod"),
    *("ReadVariableOp", "Reshape", "Shape", "Squeeze", "StopGradient", "StridedSlice", "Transpose", "Fill"),
    *("Range", "Slice", "Tile", "Unpack", "ZerosLike", "OnesLike", "BroadcastTo"),
}
_NUMBER = re.compile(r"_\d+$")


def trace_model(model: keras.Model) -> "tf.Graph | None":
    """The `tf.Graph` of a functional model's forward pass without dropout; None for other models and backends."""
    inputs = getattr(model, "input", None)
    if inputs is None and len(listed := getattr(model, "inputs", None) or ()) == 1:
        inputs = listed[0]  # a keras.Sequential lists its only input
    if keras.backend.backend() != "tensorflow" or inputs is None:
        return None
    import tensorflow as tf

    specs = keras.tree.map_structure(lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype, name=tensor.name), inputs)
    forward = tf.function(lambda inputs: model(inputs, training=False), autograph=False)
    return forward.get_concrete_function(specs).graph


def operation_graph(graph: "tf.Graph", model: keras.Model) -> bytes:
    """The operations of a graph of `trace_model`, named by layers as in the model: a serialized GraphDef."""
    names = _names(graph, model)
    definition = graph.as_graph_def()
    for node in definition.node:
        node.name = names[node.name]
        for place, source in enumerate(node.input):
            name, *output = source.removeprefix("^").split(":")
            node.input[place] = "^" * source.startswith("^") + ":".join([names[name], *output])
        node.attr.pop("_class", None)  # it has the old names of operations that share a device
    return definition.SerializeToString()


def conceptual_graph(graph: "tf.Graph", model: keras.Model) -> dict:
    """The layers of a model and what flows between them, as the JSON of a Keras model.

    A layer without layers inside is one node. For a layer with layers inside, every operation of its own, such as a sum
    or the softmax of attention, is a node too.
    """
    names = _names(graph, model)
    layers = _layers(model)
    operations = graph.get_operations()
    scopes = {operation.name: _scope(names[operation.name], layers) for operation in operations}
    parents = {"/".join(scope.split("/")[:-1]) for scope in scopes.values()}
    nodes = {}  # operation → node
    for operation in operations:
        name, scope = names[operation.name], scopes[operation.name]
        is_input = operation.type == "Placeholder" and operation.outputs[0].dtype.name != "resource"
        if scope and scope not in parents:
            nodes[operation.name] = scope
        elif is_input or (operation.type not in _PLUMBING and scope and operation.outputs):
            nodes[operation.name] = name
    edges = {node: set() for node in dict.fromkeys(nodes.values())}
    for operation in operations:
        if node := nodes.get(operation.name):
            edges[node] |= _sources(operation, nodes) - {node}
    prefix = f"{model.name}/"
    used = set().union(*edges.values())
    kinds = {node: operation.type for operation in operations if (node := nodes.get(operation.name))}
    kinds |= {node: type(layers[_last(node, layers)]).__name__ for node in edges if node in scopes.values()}
    drawn = [
        _node(node.removeprefix(prefix), kinds[node], [source.removeprefix(prefix) for source in sorted(sources)])
        for node, sources in edges.items()
        if sources or node in used
    ]
    return {"class_name": type(model).__name__, "config": {"name": model.name, "layers": drawn}}


def _layers(model):
    return {layer.name: layer for layer in all_layers(model)}


def _names(graph, model):
    """Name of each operation → its name with the layers named as in the model.

    Keras 3.15 opens the scope of every layer twice, and TensorFlow names the second one name_1.
    """
    layers = _layers(model)
    clean = {"": ""}  # scope as TensorFlow names it → as in the model
    taken = set()
    names = {}
    for operation in graph.get_operations():
        *scope, last = operation.name.split("/")
        raw = ""
        for part in scope:
            above = clean[raw]
            raw = f"{raw}{part}/"
            if raw not in clean:
                named = f"{above}{_NUMBER.sub('', part)}/"
                is_copy = part not in layers and _NUMBER.sub("", part) in layers and named not in taken
                clean[raw] = named if is_copy else f"{above}{part}/"
                taken.add(clean[raw])
        names[operation.name] = clean[raw] + last
    return names


def _scope(name, layers):
    """The layer in which an operation is, as a path of names of layers; "" outside of all."""
    path = []
    for part in name.split("/")[:-1]:
        if _last(part, layers) is None:
            break
        path.append(part)
    return "/".join(path)


def _last(path, layers):
    """The name of the layer at the end of a path, which may have been called repeatedly; else None."""
    part = path.split("/")[-1]
    return next((name for name in (part, _NUMBER.sub("", part)) if name in layers), None)


def _sources(operation, nodes):
    """The nodes from which an operation's inputs come, through operations that only pass them on."""
    sources, seen = set(), set()
    left = [tensor.op for tensor in operation.inputs]
    while left:
        before = left.pop()
        if before.name in seen:
            continue
        seen.add(before.name)
        if before.name in nodes:
            sources.add(nodes[before.name])
        else:
            left.extend(tensor.op for tensor in before.inputs)
    return sources


def _node(name, kind, sources):
    args = [{"class_name": "__keras_tensor__", "config": {"keras_history": [source, 0, 0]}} for source in sources]
    return {"class_name": kind, "config": {"name": name}, "inbound_nodes": [{"args": args, "kwargs": {}}]}
