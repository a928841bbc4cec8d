"""PyTorch's pickled checkpoints (`pytorch_model.bin`), read without executing what is pickled in them.

A pickle is a program: it may call what it names. `torch.save` needs a handful of names to describe tensors. Here these
become plain records, and every other name is refused before anything is called. The reader is kbert's own because kbert
does not depend on torch.
"""

import dataclasses
import io
import math
import os
import pickle
import reprlib
import zipfile
import zlib
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

from kbert.weights.files.plain_pickle import RefusedPickle, read_pickle
from kbert.weights.files.tensor_file import TensorInfo, checked_file

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
_DAMAGE = (  # what zipfile and pickle raise for files that are truncated, altered, or of another kind
    pickle.UnpicklingError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RuntimeError,
    ValueError,
    OSError,
)


class TorchPickleFile:
    """A `pytorch_model.bin` as a `TensorFile`, in the zip form (PyTorch ≥ 1.6) or the older single stream."""

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = checked_file(path)
        try:
            self._zip = zipfile.is_zipfile(self.path)
            self._views = self._open_zip() if self._zip else self._open_stream()
        except RefusedPickle as error:
            raise self._error(
                f"it is refused: {error}, which no file of weights needs; loading it could run any "
                "program. Nothing of it was executed. Get the weights as safetensors, or from somebody you trust."
            ) from None
        except _DAMAGE as error:
            if isinstance(error, ValueError) and str(self.path) in str(error):
                raise
            raise self._error(
                f"it cannot be read as a PyTorch checkpoint: {error!r}. It is truncated, corrupted, or "
                "something else than a saved state_dict."
            ) from None
        self.tensors = {name: self._checked(name, view) for name, view in self._views.items()}
        storages = {view.storage for view in self._views.values()}
        if len({storage.key for storage in storages}) < len(storages):
            raise self._error("it is corrupted: it reads the same data as of two types or sizes.")
        stored = sum(storage.size for storage in storages)
        described = sum(math.prod(info.shape) for info in self.tensors.values())
        if described > 2 * stored:  # a tied table occurs twice
            raise self._error(
                f"its tensors have {described} elements. Received: a file with {stored}. It is corrupted, or made to "
                "take memory."
            )

    def read(self, name: str) -> np.ndarray:
        view = self._views[name]
        storage = view.storage
        stored = np.dtype("<u2" if storage.dtype == "bfloat16" else storage.dtype).newbyteorder(self._order)
        try:
            data = np.frombuffer(self._bytes(storage), dtype=stored)
        except _DAMAGE as error:
            raise self._error(f"the tensor {name!r} cannot be read: {error!r}. The file is corrupted.") from None
        strides = tuple(stride * stored.itemsize for stride in view.strides)
        # In bounds: `_checked` has compared the last element's index with the number of elements.
        values = np.lib.stride_tricks.as_strided(data[view.offset :], view.shape, strides)
        values = np.array(values, dtype=stored.newbyteorder("="), order="C")
        return values.view(ml_dtypes.bfloat16).astype("float32") if storage.dtype == "bfloat16" else values

    def _checked(self, name: str, view: "_TensorView") -> TensorInfo:
        numbers = (view.offset, *view.shape, *view.strides)
        if len(view.shape) != len(view.strides) or not all(0 <= n < 2**63 for n in numbers):
            raise self._error(f"the tensor {name!r} makes no sense. Received: {view}")
        empty = 0 in view.shape
        last = view.offset + sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True))
        if not empty and last >= view.storage.size:
            raise self._error(f"it is corrupted: the tensor {name!r} reaches to element {last} of {view.storage.size}.")
        if not empty and math.prod(view.shape) > view.storage.size:
            raise self._error(f"it is corrupted: the tensor {name!r} has more elements than its data. Received: {view}")
        return TensorInfo(view.shape, view.storage.dtype)

    def _open_zip(self) -> "dict[str, _TensorView]":
        with zipfile.ZipFile(self.path) as archive:
            self._sizes = self._member_sizes(archive)
            pickles = [name for name in self._sizes if name == "data.pkl" or name.endswith("/data.pkl")]
            if len(pickles) != 1:
                raise self._error("it is a zip file, but not a PyTorch checkpoint: it has no data.pkl.")
            self._root = pickles[0].removesuffix("data.pkl")
            order = b"little"
            if self._root + "byteorder" in self._sizes:
                order = self._read_member(archive, self._root + "byteorder", len("little"))
            if order not in (b"little", b"big"):
                raise self._error(f"byteorder must be little or big. Received: {order!r}")
            self._order = ">" if order == b"big" else "<"
            views = self._state_dict(io.BytesIO(self._read_member(archive, pickles[0], _LARGEST_PICKLE)))
        for storage in {view.storage for view in views.values()}:
            name = self._root + "data/" + storage.key
            if self._sizes.get(name, -1) != storage.nbytes:
                raise self._error(
                    f"it is truncated or corrupted: {name} should have {storage.nbytes} bytes. "
                    f"Received: {self._sizes.get(name, 'no such entry')}"
                )
        return views

    def _member_sizes(self, archive: zipfile.ZipFile) -> dict[str, int]:
        """Sizes of the entries; all are uncompressed, so together they take no more than the file."""
        sizes = {}
        for info in archive.infolist():
            if info.filename in sizes:
                raise self._error(f"the entry {info.filename!r} occurs twice. Refused.")
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
                raise self._error(f"the entry {info.filename!r} is compressed, which torch never does. Refused.")
            sizes[info.filename] = info.file_size
        if sum(sizes.values()) > self.path.stat().st_size:
            raise self._error("it is corrupted: its entries take more bytes than the file has.")
        return sizes

    def _read_member(self, archive: zipfile.ZipFile, name: str, most: int) -> bytes:
        if self._sizes[name] > most:
            raise self._error(f"the entry {name} must have at most {most} bytes. Received: {self._sizes[name]}")
        return archive.read(name)

    def _open_stream(self) -> "dict[str, _TensorView]":
        self._positions: dict[str, int] = {}
        with self.path.open("rb") as file:
            head = io.BytesIO(file.read(_LARGEST_PICKLE))
            if self._unpickle(head) != _LEGACY_MAGIC:
                raise self._error("it is a pickle, but not a PyTorch checkpoint.")
            self._unpickle(head)  # version of the protocol
            system = self._unpickle(head)
            self._order = "<" if system.get("little_endian", True) else ">"
            views = self._state_dict(head)
            keys = self._unpickle(head)
            file.seek(head.tell())
            storages = {view.storage.key: view.storage for view in views.values()}
            for key in keys:
                size = int.from_bytes(file.read(8), "little" if self._order == "<" else "big")
                if not isinstance(key, str) or key not in storages or size != storages[key].size:
                    raise self._error("it is corrupted: the data of its tensors have other sizes.")
                self._positions[key] = file.tell()
                file.seek(storages[key].nbytes, os.SEEK_CUR)
            end = file.tell()
        if end > self.path.stat().st_size or set(storages) - set(self._positions):
            raise self._error(
                f"it is truncated: its tensors end at byte {end}. Received: a file of "
                f"{self.path.stat().st_size} bytes. Download or write it again."
            )
        return views

    def _state_dict(self, file: BinaryIO) -> "dict[str, _TensorView]":
        contents = self._unpickle(file)
        if not isinstance(contents, dict) or not all(isinstance(value, _TensorView) for value in contents.values()):
            kind = f"keys {reprlib.repr(list(contents))}" if isinstance(contents, dict) else type(contents).__name__
            raise self._error(
                f"it must hold a state_dict: a dict of tensors and nothing else. Received: {kind}. "
                "Save `model.state_dict()` alone, or better as safetensors."
            )
        if not all(isinstance(name, str) for name in contents):
            raise self._error("it must hold a state_dict, whose keys are names. Received: a number.")
        return contents

    def _unpickle(self, file: BinaryIO) -> Any:
        try:
            return read_pickle(file, _KNOWN_NAMES, _stored_data)
        except RefusedPickle:
            raise
        except ValueError as error:  # a bad opcode or number
            raise pickle.UnpicklingError(str(error)) from None

    def _error(self, problem: str) -> ValueError:
        return ValueError(f"{str(self.path)!r}: {problem}")

    def _bytes(self, storage) -> bytes:
        if self._zip:
            name = self._root + "data/" + storage.key
            with zipfile.ZipFile(self.path) as archive, archive.open(name) as file:
                return file.read(storage.nbytes)  # no more than the tensors take, whatever the file contains
        with self.path.open("rb") as file:
            file.seek(self._positions[storage.key])
            return file.read(storage.nbytes)


def looks_like_pickle(path: str | os.PathLike) -> bool:
    """Whether a file begins like torch's: a zip with a pickle in it, or a pickle."""
    with open(path, "rb") as file:
        start = file.read(2)
    if start[:1] == b"\x80":
        return len(start) == 2 and start[1] <= pickle.HIGHEST_PROTOCOL
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("data.pkl") for name in archive.namelist())
    except _DAMAGE:
        return False


# What torch's pickles may name: plain records and functions that replace torch's own and execute nothing.


@dataclasses.dataclass(frozen=True, slots=True)
class _StoredData:
    """The values that tensors are views of."""

    key: str  # the name of their file
    dtype: str
    size: int  # elements

    @property
    def nbytes(self) -> int:
        return self.size * np.dtype(self.dtype).itemsize  # ml_dtypes, imported above, adds bfloat16 to NumPy's


@dataclasses.dataclass(frozen=True, slots=True)
class _TensorView:
    """A tensor, as a part of its data."""

    storage: _StoredData
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements


def _rebuild_tensor(storage, offset, shape, strides, *_) -> _TensorView:
    if not isinstance(storage, _StoredData):
        raise pickle.UnpicklingError("a tensor without data")
    if any(type(axes) is not tuple or len(axes) > _MOST_AXES for axes in (shape, strides)):
        raise pickle.UnpicklingError("a tensor without a shape")
    if any(type(number) is not int for number in (offset, *shape, *strides)):
        raise pickle.UnpicklingError("a tensor whose shape is not numbers")
    return _TensorView(storage, offset, shape, strides)


def _rebuild_parameter(tensor: _TensorView, *_) -> _TensorView:
    return tensor


def _ordered_dict(items=()):
    """Empties its list, so that no short pickle makes many long dicts; Python 2 passes entries to the call."""
    entries = {}
    for key, value in items:
        if type(key) is not str:
            raise pickle.UnpicklingError("a key of a dict that is not a string")
        entries[key] = value
    if items:
        items.clear()
    return entries


def _size(axes=()):
    return axes


def _stored_data(pid) -> _StoredData:
    """The value of a persistent id; ids that are not torch's are refused."""
    if type(pid) is not tuple or len(pid) not in (5, 6):
        raise pickle.UnpicklingError("a persistent id that torch does not write")
    kind, dtype, key, _, size, *view = pid
    strings = all(type(value) is str for value in (kind, dtype, key))
    if not strings or kind != "storage" or dtype not in _DTYPES or view not in ([], [None]):
        raise pickle.UnpicklingError("data of an unknown kind")
    if type(size) is not int or not 0 <= size < 2**60:
        raise pickle.UnpicklingError(f"data of {size!r} elements")
    return _StoredData(key, _DTYPES[dtype], size)


_KNOWN_NAMES = {
    ("collections", "OrderedDict"): _ordered_dict,
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch", "Size"): _size,
    **{("torch", name): name for name in _DTYPES},  # strings name the type of data and cannot be called
}
