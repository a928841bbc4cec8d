"""Which tensor of another format holds each variable of kbert's models; used in both directions."""

import dataclasses
from collections.abc import Iterable

import numpy as np

from kbert.weights.formats.variables import VARIABLES, numbered


@dataclasses.dataclass(frozen=True)
class TensorName:
    """A variable in another format: its name there, the letters of its shape there, and whether it is transposed.

    Both conversions are exact: they never change a number. The letters are explained in
    `kbert.weights.formats.variables`. None: the variable's letters, reversed if it is transposed.
    """

    name: str
    dims: str | None = None
    transposed: bool = False

    def shape(self, sizes: dict[str, int]) -> tuple[int, ...]:
        return tuple(sizes[letter] for letter in self.dims)

    def to_kbert(self, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """The format's values as values of kbert's variable with this shape."""
        return values.T if self.transposed else values.reshape(shape)

    def from_kbert(self, values: np.ndarray, sizes: dict[str, int]) -> np.ndarray:
        """The inverse of `to_kbert`."""
        return values.T if self.transposed else values.reshape(self.shape(sizes))


def transposed(name: str) -> TensorName:
    """A matrix that is stored as [outputs, inputs]."""
    return TensorName(name, transposed=True)


class NameTable:
    """The names of one format, each in the format's own folder.

    Args:
        names: kbert's path of a variable → `TensorName`, or just the name of a tensor of equal shape. The format cannot
            hold variables that are missing here.
        block: the prefix of the names of a block's tensors, with ``{i}`` for its number.
        block_names: path of a variable within its block → the name after `block`.
        absent: first part of the path of a missing variable → why the format cannot hold it, for messages.

    Example::

        names = NameTable(
            "google",
            names={"pooler/dense/bias": "bert/pooler/dense/bias"},
            block="bert/encoder/layer_{i}/",
            block_names={"attention/query/bias": "attention/self/query/bias"},
        )
        names.find("encoder_block_3/attention/query/bias").name  # "bert/encoder/layer_3/attention/self/query/bias"
    """

    def __init__(self, format: str, names: dict, block: str = "", block_names: dict | None = None, absent=None):
        self.format = format
        self._absent = absent or {}
        entries = {variable: _as_tensor_name(entry) for variable, entry in names.items()}
        for variable, entry in (block_names or {}).items():
            entry = _as_tensor_name(entry)
            entries[f"encoder_block_{{i}}/{variable}"] = dataclasses.replace(entry, name=block + entry.name)
        unknown = sorted(set(entries) - set(VARIABLES))
        if unknown:
            raise ValueError(f"{format}: expected paths of kbert's variables. Received: {unknown}")
        self._names = {variable: _with_dims(entry, VARIABLES[variable]) for variable, entry in entries.items()}

    def find(self, variable: str) -> TensorName | None:
        """The tensor that holds the variable of this path; None: the format cannot hold it."""
        path, number = numbered(variable)
        found = self._names.get(path)
        return (
            found if found is None or number is None else dataclasses.replace(found, name=found.name.format(i=number))
        )

    def why_absent(self, variable: str) -> str:
        return self._absent.get(variable.split("/")[0], f"the variable {variable}")

    def layer_variables(self) -> dict[str, list[str]]:
        """Path of each layer, with ``{i}`` for its number → names of its variables in order.

        It is for the formats whose layers are Keras'.
        """
        return group_by_layer(tensor.name for tensor in self._names.values())


def group_by_layer(names: Iterable[str]) -> dict[str, list[str]]:
    """Path of each layer → the last parts of the names that begin with it, without duplicates."""
    layers: dict[str, list[str]] = {}
    for name in names:
        layer, _, variable = name.rpartition("/")
        if variable not in layers.setdefault(layer, []):
            layers[layer].append(variable)
    return layers


def _as_tensor_name(entry):
    return TensorName(entry) if isinstance(entry, str) else entry


def _with_dims(entry, dims):
    return dataclasses.replace(entry, dims=entry.dims or (dims[::-1] if entry.transposed else dims))
