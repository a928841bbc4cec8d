"""PyTorch's pickled checkpoints (`pytorch_model.bin`), read without executing what is pickled in them.

A pickle is a program: it may call what it names. `torch.save` needs a handful of names to describe tensors. Here these
become plain records, and every other name is refused before anything is called. The reader is kbert's own because kbert
does not depend on torch.
"""

import dataclasses
import io
import math
import os
import pathlib
import pickle
import reprlib
import zipfile
from typing import BinaryIO

import ml_dtypes  # noqa: F401  # registers bfloat16 in NumPy
import numpy as np

from kbert.weights.files.plain_pickle import PlainDict, read_pickle
from kbert.weights.files.tensor_file import TensorInfo, check_not_pointer, reading

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C  # first object of the files written before PyTorch 1.6
_LARGEST_PICKLE = 1_000_000  # bytes; the names in BERT-large take a tenth
_DTYPES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}
_MOST_AXES = 8


class TorchPickleFile:
    """A `pytorch_model.bin` as a `TensorFile`, in the zip form (PyTorch ≥ 1.6) or the older single stream."""

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = pathlib.Path(path)
        check_not_pointer(self.path)
        with reading(self.path):
            self._form = (_Zip if zipfile.is_zipfile(self.path) else _Stream)(self.path)
            self._views = self._form.views
            storages = {view.storage for view in self._views.values()}
            if len({storage.key for storage in storages}) < len(storages):
                raise ValueError("the same data as of two types or sizes")
            described, stored = (sum(each.nbytes for each in group) for group in (self._views.values(), storages))
            size = self.path.stat().st_size
            if stored > size or described > 2 * stored:  # a tied table occurs twice
                raise ValueError(f"{described} bytes of tensors in {stored} bytes of data in a file of {size} bytes")
        self.tensors = {name: TensorInfo(view.shape, view.storage.dtype) for name, view in self._views.items()}

    def read(self, name: str) -> np.ndarray:
        view = self._views[name]
        dtype = np.dtype(view.storage.dtype)
        with reading(self.path, f"the tensor {name!r}"):
            offset, *strides = (number * dtype.itemsize for number in (view.offset, *view.strides))
            # In bounds, or a ValueError of NumPy.
            values = np.ndarray(view.shape, dtype, self._form.read(view.storage), offset, strides)
        return values.astype("float32" if dtype == "bfloat16" else dtype, order="C", copy=False)


class _Zip:
    """The form since PyTorch 1.6: an uncompressed zip file of a pickle and the data."""

    def __init__(self, path: pathlib.Path) -> None:
        self._archive = zipfile.ZipFile(path)
        names = self._archive.namelist()
        pickles = [name for name in names if name == "data.pkl" or name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise ValueError(f"a zip file must have one data.pkl. Received: {len(pickles)}")
        self._root = pickles[0].removesuffix("data.pkl")
        if self._root + "byteorder" in names and (order := self._read("byteorder", len("little"))) != b"little":
            raise ValueError(f"byteorder must be little. Received: {order!r}")
        self.views = _state_dict(io.BytesIO(self._read("data.pkl", _LARGEST_PICKLE)))
        for storage in {view.storage for view in self.views.values()}:
            name = self._root + "data/" + storage.key
            if (size := self._archive.getinfo(name).file_size) != storage.nbytes:
                raise ValueError(f"{name} should have {storage.nbytes} bytes. Received: {size}")

    def read(self, storage: "_StoredData") -> bytes:
        return self._read("data/" + storage.key, storage.nbytes)

    def _read(self, name, most):
        info = self._archive.getinfo(self._root + name)
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > most:
            raise ValueError(f"{name} must have at most {most} bytes, uncompressed. Received: {info.file_size}")
        return self._archive.read(info)


class _Stream:
    """The older form: pickles, then the data."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._positions: dict[str, int] = {}
        with path.open("rb") as file:
            head = io.BytesIO(file.read(_LARGEST_PICKLE))
            magic, _, system = (read_pickle(head, _KNOWN_NAMES, _stored_data) for _ in range(3))
            if magic != _LEGACY_MAGIC or system["little_endian"] is not True:
                raise ValueError("another pickle than PyTorch's, or not little-endian")
            self.views = _state_dict(head)
            storages = {view.storage.key: view.storage for view in self.views.values()}
            keys = read_pickle(head, _KNOWN_NAMES, _stored_data)
            file.seek(head.tell())
            for key in keys:
                if type(key) is not str or int.from_bytes(file.read(8), "little") != storages[key].size:
                    raise ValueError("the data of its tensors have other sizes")
                self._positions[key] = file.tell()
                file.seek(storages[key].nbytes, os.SEEK_CUR)
            if file.tell() > path.stat().st_size or set(storages) - set(self._positions):
                raise ValueError(f"truncated: its tensors end at byte {file.tell()}, the file before")

    def read(self, storage: "_StoredData") -> bytes:
        with self._path.open("rb") as file:
            file.seek(self._positions[storage.key])
            return file.read(storage.nbytes)


def _state_dict(file: BinaryIO) -> "dict[str, _TensorView]":
    contents = read_pickle(file, _KNOWN_NAMES, _stored_data)
    if not isinstance(contents, dict) or not all(
        type(name) is str and type(value) is _TensorView for name, value in contents.items()
    ):
        kind = f"keys {reprlib.repr(list(contents))}" if isinstance(contents, dict) else type(contents).__name__
        raise ValueError(
            f"it must hold a state_dict: a dict of tensors by name and nothing else. Received: {kind}. "
            "Save `model.state_dict()` alone, or better as safetensors"
        )
    return contents


# What torch's pickles may name: plain records and functions that replace torch's own and execute nothing.


@dataclasses.dataclass(frozen=True, slots=True)
class _StoredData:
    """The values that tensors are views of."""

    key: str  # the name of their file
    dtype: str
    size: int  # elements

    @property
    def nbytes(self) -> int:
        return self.size * np.dtype(self.dtype).itemsize


@dataclasses.dataclass(frozen=True, slots=True)
class _TensorView:
    """A tensor, as a part of its data."""

    storage: _StoredData
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.storage.dtype).itemsize


def _rebuild_tensor(storage, offset, shape, strides, *_) -> _TensorView:
    if type(storage) is not _StoredData or not len(shape) == len(strides) <= _MOST_AXES:
        raise pickle.UnpicklingError("a tensor without data or a shape")
    if not all(type(number) is int and 0 <= number < 2**63 for number in (offset, *shape, *strides)):
        raise pickle.UnpicklingError("a tensor whose shape makes no sense")
    view = _TensorView(storage, offset, tuple(shape), tuple(strides))
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if math.prod(shape) > storage.size or (last >= storage.size and 0 not in shape):
        raise pickle.UnpicklingError(f"a tensor reaches beyond its data: {view}")
    return view


def _rebuild_parameter(tensor: _TensorView, *_) -> _TensorView:
    return tensor


def _ordered_dict(items=()):
    """Empties its list, so that no short pickle makes many long dicts; Python 2 passes entries to the call."""
    entries = PlainDict()
    for key, value in items:
        entries[key] = value
    if items:
        items.clear()
    return entries


def _size(axes=()):
    return axes


def _stored_data(pid) -> _StoredData:
    """The value of a persistent id; ids that are not torch's are refused."""
    match pid:
        case ("storage", str(dtype), str(key), _, int(size), *view) if dtype in _DTYPES and view in ([], [None]):
            if 0 <= size < 2**60:
                return _StoredData(key, _DTYPES[dtype], size)
    raise pickle.UnpicklingError("a persistent id that torch does not write")


_KNOWN_NAMES = {
    ("collections", "OrderedDict"): _ordered_dict,
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch", "Size"): _size,
    **{("torch", name): name for name in _DTYPES},  # strings name the type of data and cannot be called
}
