"""Reads saved_model.pb without loading the model."""

import collections
import dataclasses
import math
import pathlib

_INIT = "__saved_model_init_op"  # listed among the signatures, but not one


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """One input or output of a signature: node name, dtype name ("string", "float32" …), shape (None = free)."""

    node: str
    dtype: str
    shape: tuple | None  # None: not even the rank is known


@dataclasses.dataclass(frozen=True)
class Signature:
    """One signature: its method name, and its inputs and outputs by name."""

    method: str
    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]

    @property
    def kind(self):
        """The server's method for it: predict, classify or regress."""
        return self.method.rpartition("/")[2]


class SavedModelFile:
    """The graph of a SavedModel: its ops, in all its functions, its signatures and its variables.

    Raises:
        FileNotFoundError: no SavedModel.
        ValueError: a damaged one, or one without a graph for serving.
    """

    def __init__(self, directory):
        self.path = pathlib.Path(directory)
        self._graph = _serving_graph(self.path / "saved_model.pb")
        found = {name: value for name, value in sorted(self._graph.signature_def.items()) if name != _INIT}
        self.signatures = {name: _signature(value) for name, value in found.items()}

    @property
    def nodes(self):
        """All nodes, those of functions included."""
        graph = self._graph.graph_def
        yield from graph.node
        for function in graph.library.function:
            yield from function.node_def

    def ops(self):
        """Counter of op names; calls of the graph's own functions by name are not ops."""
        functions = {function.signature.name for function in self._graph.graph_def.library.function}
        return collections.Counter(node.op for node in self.nodes if node.op not in functions)

    def bodies(self):
        """(role, set of op names) of the graph and of each of its functions.

        The role is "graph" for the graph, "save" or "restore" for the function that only the saver calls, and "serve"
        for all others. The one that restores must read the file that the loader names, and no other.
        """
        graph, saver = self._graph.graph_def, self._graph.saver_def
        functions = {function.signature.name: function for function in graph.library.function}
        # names of nodes of the graph; None: what Python, or another function, calls
        callers = {name: {None} for name in self._graph.object_graph_def.concrete_functions}
        nodes = {node.name: node for node in graph.node}
        for name, node in nodes.items():
            for called in _called(node, functions):
                callers.setdefault(called, set()).add(name)
        for function in functions.values():
            for node in function.node_def:
                for called in _called(node, functions):
                    callers.setdefault(called, set()).add(None)
        yield "graph", {node.op for node in graph.node} - set(functions)
        save, restore = saver.save_tensor_name.partition(":")[0], saver.restore_op_name
        file = saver.filename_tensor_name.partition(":")[0]
        for name, function in functions.items():
            role = "serve"
            if save != restore and callers.get(name) == {save}:
                role = "save"
            elif callers.get(name) == {restore} and _restores(function, nodes[restore], file):
                role = "restore"
            yield role, {node.op for node in function.node_def} - set(functions)

    def compiled_functions(self):
        """Names of the functions that must be compiled by XLA."""
        functions = self._graph.graph_def.library.function
        return [function.signature.name for function in functions if function.attr["_XlaMustCompile"].b]

    def variable_bytes(self):
        """Size of the variables that the graph declares, each once."""
        variables = {}
        for node in self.nodes:
            if node.op == "VarHandleOp":
                shape = [dim.size for dim in node.attr["shape"].shape.dim]
                size = math.prod(shape) * _dtype(node.attr["dtype"].type).size
                variables[node.attr["shared_name"].s or node.name] = size
        return sum(variables.values())

    def example_features(self):
        """The features that the graph's parsers of tf.Examples require: a list of sets of names, one per parser."""
        graph, found = self._graph.graph_def, []
        for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
            constants = {node.name: node.attr["value"].tensor for node in nodes if node.op == "Const"}
            for node in nodes:
                if node.op != "ParseExampleV2":
                    continue
                # serialized, names, sparse_keys, dense_keys, ragged_keys, then a default for each dense key
                tensors = [constants.get(name.partition(":")[0]) for name in node.input]
                keys = tensors[3].string_val if len(tensors) > 5 and tensors[3] is not None else ()
                required = [  # those whose default has no value
                    key.decode("utf-8", "replace")
                    for key, default in zip(keys, tensors[5:], strict=False)
                    if default is not None and any(dim.size == 0 for dim in default.tensor_shape.dim)
                ]
                found.append(set(required))
        return found

    def asset_names(self):
        """Files that the graph reads when it is loaded."""
        return [asset.filename for asset in self._graph.asset_file_def]


def find_export(directory) -> pathlib.Path | None:
    """The version that a path of an export means: itself, or the highest version in it; None if there is none."""
    directory = pathlib.Path(directory)
    if not directory.is_dir():
        return None
    versions = [path for path in directory.iterdir() if path.name.isdecimal()]
    found = [directory, *sorted(versions, key=lambda path: -int(path.name))]
    return next((path for path in found if (path / "saved_model.pb").is_file()), None)


def set_methods(directory, methods):
    """Sets method names of signatures, which TensorFlow 2 always calls ``tensorflow/serving/predict``."""
    from tensorflow.core.protobuf import saved_model_pb2

    path = pathlib.Path(directory) / "saved_model.pb"
    content = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for name, method in methods.items():
        content.meta_graphs[0].signature_def[name].method_name = method
    path.write_bytes(content.SerializeToString(deterministic=True))
    (path.parent / "fingerprint.pb").unlink(missing_ok=True)  # of the file as it was; no loader needs one


def _serving_graph(path):
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    if not path.is_file():
        raise FileNotFoundError(
            f"Expected a SavedModel, such as saved_models/NAME/1, with saved_model.pb in it. Received: {path.parent}"
        )
    try:
        content = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    except DecodeError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    tags = [list(graph.meta_info_def.tags) for graph in content.meta_graphs]
    if tags != [["serve"]]:  # loaders choose by the tags, and not all of them alike
        raise ValueError(f"{path}: expected one graph, with the tag `serve`. Received: graphs with the tags {tags}")
    return content.meta_graphs[0]


def _called(node, functions):
    """Names of the functions that a node calls, by its op or its attributes."""
    if node.op in functions:
        yield node.op
    for value in node.attr.values():
        for function in (value.func, *value.list.func):
            if function.name:
                yield function.name


def _restores(function, call, file):
    """Whether a function restores variables from its first argument, which its caller is given as the file's name."""
    arguments = [argument.name for argument in function.signature.input_arg]
    prefixes = [node.input[:1] for node in function.node_def if node.op == "RestoreV2"]
    return call.input[:1] == [file] and all(prefix == arguments[:1] for prefix in prefixes)


def _signature(value):
    return Signature(
        value.method_name,
        {name: _tensor(info) for name, info in sorted(value.inputs.items())},
        {name: _tensor(info) for name, info in sorted(value.outputs.items())},
    )


def _tensor(info):
    shape = None
    if not info.tensor_shape.unknown_rank:
        shape = tuple(None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim)
    return TensorSpec(info.name, _dtype(info.dtype).name, shape)


def _dtype(number):
    import tensorflow as tf

    try:
        return tf.as_dtype(number)
    except TypeError:
        raise ValueError(f"saved_model.pb is damaged: expected the number of a data type. Received: {number}") from None
