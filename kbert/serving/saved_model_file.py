"""Versions of a served model, and what saved_model.pb says without loading the model.

Messages are TensorFlow's own: reading them runs nothing of the graph.
"""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Iterator

from kbert.checks import check_option
from kbert.options import Count

_LATEST = 2**63 - 1  # int64, as TensorFlow Serving stores versions
_INIT = "__saved_model_init_op"  # listed among the signatures, but not one


def check_version(owner: str, version: int) -> None:
    """Raises a ValueError that names the owner unless a server can hold this number."""
    check_option(owner, "version", version, Count)
    if version > _LATEST:
        raise ValueError(f"{owner}: `version` must be at most {_LATEST}, as servers take int64. Received: {version}")


def find_export(directory: str | os.PathLike) -> pathlib.Path | None:
    """The version that the path of an export stands for: itself, or the highest in it."""
    directory = pathlib.Path(directory)
    if not directory.is_dir():
        return None
    versions = [path for path in directory.iterdir() if path.name.isdecimal()]
    versions.sort(key=lambda path: int(path.name), reverse=True)
    paths = [directory, *versions]
    return next((path for path in paths if (path / "saved_model.pb").is_file()), None)


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """One input or output of a signature; `shape` is None if not even the rank is known, None in it a free size."""

    dtype: str
    shape: tuple[int | None, ...] | None


@dataclasses.dataclass(frozen=True)
class Signature:
    """One signature: its method name, and its inputs and outputs by name."""

    method: str
    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]

    @property
    def kind(self) -> str:
        """The server's method for it: predict, classify or regress."""
        return self.method.rpartition("/")[2]


class SavedModelFile:
    """The graph of a SavedModel: ops of all its functions, and signatures."""

    def __init__(self, directory: str | os.PathLike) -> None:
        from kbert.keras_compat import is_tensorflow_op  # not above: a client needs no Keras

        self.path = pathlib.Path(directory)
        self._graph = _serving_graph(self.path / "saved_model.pb")
        graph = self._graph.graph_def
        self._nodes = {node.name: node for node in graph.node}
        self._functions = {function.signature.name: function for function in graph.library.function}
        # The loader must not see another node or function than the audit.
        counts = len(graph.node), len(graph.library.function)
        if (len(self._nodes), len(self._functions)) != counts:
            raise _damaged(self.path, "nodes or functions share a name")
        if ops := sorted(filter(is_tensorflow_op, self._functions)):
            raise _damaged(self.path, f"functions have the names of ops: {ops}")
        self.signatures = {
            name: Signature(value.method_name, _tensors(value.inputs), _tensors(value.outputs))
            for name, value in sorted(self._graph.signature_def.items())
            if name != _INIT
        }

    @property
    def nodes(self) -> Iterator:
        """All nodes of the graph and of its functions."""
        yield from self._nodes.values()
        for function in self._functions.values():
            yield from function.node_def

    def ops(self) -> collections.Counter:
        """Counter of op names; calls of the graph's own functions by name are not ops."""
        return collections.Counter(node.op for node in self.nodes if node.op not in self._functions)

    def bodies(self) -> Iterator[tuple[str, set[str]]]:
        """(role, op names) of the graph and of each of its functions.

        The role is "graph", "save" or "restore" for the function that the saver calls for this, and else "serve".
        """
        saver = self._graph.saver_def
        calls = {"save": saver.save_tensor_name.partition(":")[0], "restore": saver.restore_op_name}
        roles = {self._nodes[node].attr["f"].func.name: role for role, node in calls.items() if node in self._nodes}
        yield "graph", {node.op for node in self._nodes.values()} - set(self._functions)
        for name, function in self._functions.items():
            yield roles.get(name, "serve"), {node.op for node in function.node_def} - set(self._functions)

    def compiled_functions(self) -> list[str]:
        """Names of the functions that must be compiled by XLA."""
        return [name for name, function in self._functions.items() if function.attr["_XlaMustCompile"].b]

    def asset_names(self) -> list[str]:
        """Files that the graph reads when it is loaded."""
        return [asset.filename for asset in self._graph.asset_file_def]


def _serving_graph(path: pathlib.Path):
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


def _tensors(infos) -> dict[str, TensorSpec]:
    specs = {}
    for name, info in sorted(infos.items()):
        if not info.name:  # coo_sparse, composite_tensor
            raise ValueError(f"saved_model.pb: expected dense tensors in signatures. Received: {name!r}, which is none")
        shape = None
        if not info.tensor_shape.unknown_rank:
            shape = tuple(dim.size if dim.size >= 0 else None for dim in info.tensor_shape.dim)
        specs[name] = TensorSpec(_dtype(info.dtype).name, shape)
    return specs


def _dtype(number: int):
    import tensorflow as tf

    try:
        return tf.as_dtype(number)
    except TypeError:
        raise ValueError(f"saved_model.pb is damaged: expected the number of a data type. Received: {number}") from None


def _damaged(path: pathlib.Path, reason: str) -> ValueError:
    return ValueError(f"{path}/saved_model.pb is damaged: {reason}")
