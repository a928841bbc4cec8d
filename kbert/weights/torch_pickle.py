"""PyTorch's pickled checkpoints (`pytorch_model.bin`), read without executing what is pickled in them.

A pickle is a program: what it names, it may call. `torch.save` needs a handful of names to describe tensors; here these
few are known, stand for plain records, and every other name is refused before anything is called.
"""

import collections
import dataclasses
import io
import os
import pickle
import pickletools
import zipfile
import zlib

import numpy as np

from kbert.weights.tensor_file import TensorInfo, checked_file, widened

_DTYPES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool",
}  # fmt: skip
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C  # first object of the files written before PyTorch 1.6
_LARGEST_PICKLE = 100_000_000  # bytes; the names of the largest BERT take less than one
_DAMAGE = (  # what zipfile and pickle raise of files that are truncated, altered, or something else
    pickle.UnpicklingError, zipfile.BadZipFile, zlib.error, EOFError, LookupError, TypeError, AttributeError,
    ArithmeticError, MemoryError, RuntimeError, NotImplementedError, UnicodeError,
)  # fmt: skip


class TorchPickleFile:
    """A `pytorch_model.bin` as a `kbert.weights.tensor_file.TensorFile`; needs no torch and runs nothing of the file.

    Reads the zip form (PyTorch ≥ 1.6) and the older single stream.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the pickle names anything but what describes tensors (the name is told), or the file is truncated,
            of another kind, or describes tensors that reach outside their data.

    Example::

        TorchPickleFile("pytorch_model.bin").read("bert.pooler.dense.bias")
    """

    def __init__(self, path: str | os.PathLike):
        self.path = checked_file(path)
        self._zip = zipfile.is_zipfile(self.path)
        try:
            contents = self._open_zip() if self._zip else self._open_stream()
        except _DAMAGE as error:
            raise ValueError(
                f"{str(self.path)!r} cannot be read as a PyTorch checkpoint: {error!r}. It is truncated, corrupted, or "
                "something else than a saved state_dict."
            ) from None
        if not isinstance(contents, dict) or not all(isinstance(value, _Tensor) for value in contents.values()):
            kind = f"keys {list(contents)[:5]}" if isinstance(contents, dict) else type(contents).__name__
            raise ValueError(
                f"{str(self.path)!r} must hold a state_dict: a dict of tensors and nothing else. Received: {kind}. "
                "Save `model.state_dict()` alone, or better as safetensors."
            )
        self._views = contents
        self.tensors = {name: self._checked(name, view) for name, view in contents.items()}

    def read(self, name: str) -> np.ndarray:
        view = self._views[name]
        storage = view.storage
        stored = np.dtype("<u2" if storage.dtype == "bfloat16" else storage.dtype).newbyteorder(self._order)
        try:
            data = np.frombuffer(self._bytes(storage, stored.itemsize), dtype=stored)
        except _DAMAGE as error:
            raise ValueError(
                f"{str(self.path)!r}: the tensor {name!r} cannot be read: {error!r}. The file is corrupted."
            ) from None
        strides = tuple(stride * stored.itemsize for stride in view.strides)
        # In bounds: `_checked` has compared the last element's place with the number of elements.
        values = np.lib.stride_tricks.as_strided(data[view.offset :], view.shape, strides)
        values = np.array(values, dtype=stored.newbyteorder("="), order="C")
        return widened(values) if storage.dtype == "bfloat16" else values

    def _checked(self, name, view):
        numbers = (view.offset, *view.shape, *view.strides)
        if len(view.shape) != len(view.strides) or not all(isinstance(n, int) and n >= 0 for n in numbers):
            raise ValueError(f"{str(self.path)!r}: the tensor {name!r} makes no sense. Received: {view}")
        empty = 0 in view.shape
        last = view.offset + sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True))
        if not empty and last >= view.storage.size:
            raise ValueError(
                f"{str(self.path)!r}: the tensor {name!r} reaches to element {last} of data that has "
                f"{view.storage.size}. The file is corrupted."
            )
        return TensorInfo(view.shape, view.storage.dtype)

    def _open_zip(self):
        with zipfile.ZipFile(self.path) as archive:
            names = archive.namelist()
            pickles = [name for name in names if name == "data.pkl" or name.endswith("/data.pkl")]
            if len(pickles) != 1:
                raise ValueError(f"{str(self.path)!r} is a zip file, but not a PyTorch checkpoint: it has no data.pkl.")
            self._root = pickles[0].removesuffix("data.pkl")
            order = archive.read(self._root + "byteorder") if self._root + "byteorder" in names else b"little"
            self._order = ">" if order == b"big" else "<"
            self._sizes = {info.filename: info.file_size for info in archive.infolist()}
            if self._sizes[pickles[0]] > _LARGEST_PICKLE:
                raise ValueError(
                    f"{str(self.path)!r}: the pickle in it is larger than {_LARGEST_PICKLE} bytes. Refused."
                )
            contents = self._unpickle(io.BytesIO(archive.read(pickles[0])))
        for storage in _storages(contents):
            name, needed = self._root + "data/" + storage.key, storage.size * _item_size(storage)
            if self._sizes.get(name, -1) < needed:
                raise ValueError(
                    f"{str(self.path)!r} is truncated or corrupted: {name} should have {needed} bytes. Received: "
                    f"{self._sizes.get(name, 'no such entry')}"
                )
        return contents

    def _open_stream(self):
        self._order, self._places = "<", {}
        with self.path.open("rb") as file:
            if self._unpickle(file) != _LEGACY_MAGIC:
                raise ValueError(f"{str(self.path)!r} is a pickle, but not a PyTorch checkpoint.")
            self._unpickle(file)  # version of the protocol
            system = self._unpickle(file)
            self._order = "<" if system.get("little_endian", True) else ">"
            contents = self._unpickle(file)
            keys = self._unpickle(file)
            storages = {storage.key: storage for storage in _storages(contents)}
            for key in keys:
                size = int.from_bytes(file.read(8), "little" if self._order == "<" else "big")
                if key not in storages or size < storages[key].size:
                    raise ValueError(f"{str(self.path)!r} is corrupted: the data {key!r} do not fit the tensors.")
                self._places[key] = file.tell()
                file.seek(size * _item_size(storages[key]), os.SEEK_CUR)
            end = file.tell()
        if end > self.path.stat().st_size or set(storages) - set(self._places):
            raise ValueError(
                f"{str(self.path)!r} is truncated: its tensors end at byte {end}. Received: a file of "
                f"{self.path.stat().st_size} bytes. Download or write it again."
            )
        return contents

    def _unpickle(self, file):
        start = file.tell()
        try:
            _check_opcodes(file)
            file.seek(start)
            return _Unpickler(file, self).load()
        except ValueError as error:  # of a number or a string that is none; a refusal says so itself
            raise error if isinstance(error, _Refusal) else pickle.UnpicklingError(str(error)) from None

    def _bytes(self, storage, item_size):
        needed = storage.size * item_size
        if self._zip:
            name = self._root + "data/" + storage.key
            with zipfile.ZipFile(self.path) as archive, archive.open(name) as file:
                return file.read(needed)  # no more than the tensors take, whatever is packed into the file
        with self.path.open("rb") as file:
            file.seek(self._places[storage.key])
            return file.read(needed)


@dataclasses.dataclass(frozen=True, slots=True)
class _Storage:
    key: str
    dtype: str
    size: int  # elements


@dataclasses.dataclass(frozen=True, slots=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements


def _rebuild_tensor(storage, offset, shape, strides, *_):
    if not isinstance(storage, _Storage):
        raise pickle.UnpicklingError(f"a tensor stands on {storage!r}, which is no data")
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


def _rebuild_parameter(tensor, *_):
    return tensor


_KNOWN = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch", "Size"): tuple,
    **{("torch", name): name for name in _DTYPES},  # a string: naming the type of some data, and nothing to call
}


def looks_like_pickle(path: str | os.PathLike) -> bool:
    """Whether a file begins as torch's files do: a zip with a pickle in it, or a pickle."""
    with open(path, "rb") as file:
        start = file.read(2)
    if start[:1] == b"\x80":
        return len(start) == 2 and start[1] <= pickle.HIGHEST_PROTOCOL
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("data.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def _check_opcodes(file):
    """Raises UnpicklingError where a place in the pickle's memo is beyond all so far: Python allots all before it."""
    for count, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and argument > count:
            raise pickle.UnpicklingError(f"an entry {argument} of a memo that has at most {count}")


class _Refusal(ValueError):
    """A pickle that names what no file of weights needs."""


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, owner):
        super().__init__(file, encoding="utf-8")
        self._owner = owner

    def find_class(self, module, name):
        if (module, name) not in _KNOWN:
            raise _Refusal(
                f"{str(self._owner.path)!r} is refused: its pickle names {module}.{name}, which no file of weights "
                "needs; loading it could run any program. Nothing of it was executed. Get the weights as safetensors, "
                "or from somebody you trust."
            )
        return _KNOWN[module, name]

    def persistent_load(self, pid):
        kind, dtype, key, _, size, *view = pid
        if kind != "storage" or dtype not in _DTYPES or (view and view[0] is not None):
            raise pickle.UnpicklingError(f"data of an unknown kind ({pid!r})")
        return _Storage(str(key), _DTYPES[dtype], int(size))


def _storages(contents):
    values = contents.values() if isinstance(contents, dict) else ()
    return {value.storage for value in values if isinstance(value, _Tensor)}


def _item_size(storage):
    return 2 if storage.dtype == "bfloat16" else np.dtype(storage.dtype).itemsize
