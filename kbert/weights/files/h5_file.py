"""Keras' `.weights.h5` files: checked whole, then read variable by variable; written in half the size.

The checks are our own. h5py follows links into other files, decompresses whatever is compressed, and never returns from
some damaged files. Keras needs a model before it can name the variables in a file.
"""

import contextlib
import mmap
import pathlib
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping

import h5py
import ml_dtypes
import numpy as np

from kbert.options import PathLike
from kbert.weights.files.tensor_file import TensorInfo, checked_file

_HEAP = b"GCOL\x01\x00\x00\x00"  # the beginning of a heap: its size follows, then its blocks
# The attribute "name" as h5py writes it: the types of its value, then length and heap of a string of any length.
_NAME = re.compile(rb"name\0{4}.{32}(.{4})(.{8})", re.DOTALL)
_LONGEST_NAME = 1000
_CLOSING = "decrement id ref count"  # in HDF5's error where the last use of a file or dataset ends
_NUMBER = re.compile(r"^(encoder_block|transformer_layer)_\d+(?=/|$)")  # the block of a layer
_HALF = {"float16": np.dtype("float16"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
STORAGE_DTYPES = ("float32", *_HALF)


class H5File:
    """Keras' `.weights.h5` files as one `TensorFile`, by the paths of the variables.

    `layer_variables` names the variables of each layer to look for (see `NameTable.layer_variables`). `tensors` is
    empty for files of older Keras versions, which did not name layers.
    """

    def __init__(self, paths: Iterable, layer_variables: Mapping[str, list[str]]) -> None:
        paths = [pathlib.Path(path) for path in paths]
        self.path = paths[0]
        self._variables = layer_variables
        self._locations: dict[str, tuple[pathlib.Path, str]] = {}
        self.tensors: dict[str, TensorInfo] = {}
        for path in paths:
            check_h5(path)
            with _opened(path) as file:
                self._walk(file, "", path)

    def read(self, name: str) -> np.ndarray:
        path, location = self._locations[name]
        with _opened(path) as file:
            dataset = file[location]
            if _is_bfloat16(dataset):
                return np.array(dataset, dtype=ml_dtypes.bfloat16).astype(np.float32)
            return dataset[...]

    def _walk(self, group, layer, path):
        """Records the variables of a layer, whose name Keras stores beside them, and of its sublayers."""
        own = group.get("vars")
        if own is not None and "layers" not in group:  # not the model, whose name is in no path
            layer = "/".join(filter(None, (layer, str(own.attrs.get("name", "")))))
            variables = self._variables.get(_NUMBER.sub(r"\1_{i}", layer), ())
            if len(own) < len(variables):  # a tied masked LM has no separate table
                variables = variables[len(variables) - len(own) :]
            for number, variable in enumerate(variables):
                if str(number) in own:
                    self._add(f"{layer}/{variable}", own[str(number)], path)
        for key in group:
            if key != "vars" and isinstance(group[key], h5py.Group):
                self._walk(group[key], layer, path)

    def _add(self, name, dataset, path):
        if name in self.tensors:
            raise ValueError(f"two variables {name}")
        self._locations[name] = path, dataset.name
        dtype = "bfloat16" if _is_bfloat16(dataset) else dataset.dtype.name
        self.tensors[name] = TensorInfo(tuple(dataset.shape), dtype)


def check_h5(path: PathLike) -> None:
    """Raises ValueError unless the file contains all its data itself, one block of numbers for each variable.

    So nothing is read from another file, and what is read takes no more memory than the file has bytes.
    """
    path = checked_file(path)
    _check_heaps(path)
    with _opened(path) as file:
        needed = sum(_checked_size(dataset, path) for dataset in _datasets(file, path))
    if needed > path.stat().st_size:
        raise ValueError(f"{path} is corrupted: its variables take {needed} bytes, more than the file has.")


def _check_heaps(path: pathlib.Path) -> None:
    """Checks the heaps of layer names, since the HDF5 library never returns from damaged ones."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        heaps = set()
        start = content.find(_HEAP)
        while start >= 0:
            heaps.add(start)
            end = min(start + int.from_bytes(content[start + 8 : start + 16], "little"), len(content))
            block = start + 16
            while block + 16 <= end:
                index = int.from_bytes(content[block : block + 2], "little")
                size = int.from_bytes(content[block + 8 : block + 16], "little")
                step = size if index == 0 else 16 + (size + 7) // 8 * 8
                if step < 16:
                    raise ValueError(f"{path} is corrupted: a block of {size} bytes at byte {block}.")
                block += step
            start = content.find(_HEAP, start + len(_HEAP))
        for name in _NAME.finditer(content):
            length, heap = (int.from_bytes(field, "little") for field in name.groups())
            if length and length <= _LONGEST_NAME and heap >= len(content):
                raise ValueError(f"{path} is truncated or no HDF5 file: it ends before byte {heap}. Download it again.")
            if length > _LONGEST_NAME or (length and heap not in heaps):
                raise ValueError(f"{path} is corrupted: a name of {length} bytes that is kept at byte {heap}.")


def _datasets(file: h5py.File, path: pathlib.Path) -> Iterator[h5py.Dataset]:
    """All datasets, each once, even if groups contain themselves."""
    groups, seen = [file], set()
    while groups:
        group = groups.pop()
        for name in group:
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise ValueError(f"{path}: {name!r} is a link ({type(link).__name__}), maybe to another file. Refused.")
            entry = group[name]
            address = h5py.h5o.get_info(entry.id).addr
            if address in seen:
                raise ValueError(f"{path}: {name!r} is in two groups. Refused: Keras never writes that.")
            seen.add(address)
            if isinstance(entry, h5py.Dataset):
                yield entry
            elif isinstance(entry, h5py.Group):
                groups.append(entry)
            else:
                raise ValueError(f"{path}: {name!r} is neither a group nor a dataset. Refused.")


def _checked_size(dataset: h5py.Dataset, path: pathlib.Path) -> int:
    name = dataset.name
    if dataset.is_virtual or dataset.external:
        raise ValueError(f"{path}: the data of {name!r} are in another file. Refused: weights are in one file.")
    layout = dataset.id.get_create_plist().get_layout()
    if layout not in (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT):
        raise ValueError(f"{path}: the data of {name!r} are chunked or compressed, which Keras never does. Refused.")
    if dataset.dtype.kind not in "fiub" and not _is_bfloat16(dataset):
        raise ValueError(f"{path}: {name!r} must hold numbers. Received: {dataset.dtype}")
    size = dataset.size * dataset.dtype.itemsize if dataset.shape is not None else -1
    if dataset.id.get_storage_size() != size:
        raise ValueError(
            f"{path}: {name!r} of shape {dataset.shape} takes {size} bytes. Received: "
            f"{dataset.id.get_storage_size()} bytes. The file is corrupted."
        )
    return size


def _is_bfloat16(dataset: h5py.Dataset) -> bool:
    return dataset.dtype.itemsize == 2 and str(dataset.attrs.get("dtype")) == "bfloat16"


@contextlib.contextmanager
def _opened(path) -> Iterator[h5py.File]:
    """The file, open for reading. An error of a damaged file in the block becomes a ValueError that names it."""
    try:
        file = h5py.File(path, "r")
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"{path} is truncated or no HDF5 file: {error}. Download or write it again.") from None
    with file:
        try:
            yield file
        except (OSError, RuntimeError, LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
            if isinstance(error, ValueError) and str(path) in str(error):
                raise
            raise ValueError(f"{path} is corrupted: {error}. Download or write it again.") from None


@contextlib.contextmanager
def h5_errors_raised(path: PathLike) -> Iterator[None]:
    """Raises what h5py only prints while it closes the file at `path`, such as a full disk."""
    printed: list[BaseException] = []
    hooks = sys.excepthook, sys.unraisablehook

    def keep(error: BaseException | None) -> bool:
        """Whether it is of h5py: any destructor may fail meanwhile, of which Python tells as ever."""
        if _CLOSING not in str(error).lower():
            return False
        printed.append(error)
        return True

    sys.excepthook = lambda kind, error, trace: keep(error) or hooks[0](kind, error, trace)  # Cython calls both
    sys.unraisablehook = lambda unraisable: keep(unraisable.exc_value) or hooks[1](unraisable)
    try:
        yield
    except Exception as error:
        if printed:  # such as a missing file that h5py did not write
            raise OSError(f"{path}: not written: {printed[0]}") from error
        cause = error
        while cause is not None:  # h5py's objects are deleted now, not when the program ends
            traceback.clear_frames(cause.__traceback__)
            cause = cause.__context__
        raise
    finally:
        sys.excepthook, sys.unraisablehook = hooks
    if printed:
        raise OSError(f"{path}: not written: {printed[0]}") from printed[0]


def cast_h5(path: PathLike, dtype: str) -> None:
    """Rewrites a file with its float32 variables in "float16" or "bfloat16" as Keras would, one in memory at a time."""
    path = pathlib.Path(path)
    narrow = path.with_name(path.name + ".cast")
    try:
        with h5py.File(path, "r") as source, h5py.File(narrow, "w") as target:
            _copy_cast(source, target, dtype)
        narrow.replace(path)
    finally:
        narrow.unlink(missing_ok=True)


def _copy_cast(source, target, dtype):
    target.attrs.update(source.attrs)
    for name, entry in source.items():
        if isinstance(entry, h5py.Group):
            _copy_cast(entry, target.create_group(name), dtype)
            continue
        values = entry[()]
        if values.dtype == np.float32:
            values = _cast(values, dtype, entry.name)
        copy = target.create_dataset(name, data=values)
        copy.attrs.update(entry.attrs)
        if values.dtype == ml_dtypes.bfloat16:
            copy.attrs["dtype"] = "bfloat16"  # HDF5 has no such type: Keras looks for this


def _cast(values: np.ndarray, dtype: str, name: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        cast = values.astype(_HALF[dtype])
    if np.any(np.isinf(cast) & np.isfinite(values)):
        raise ValueError(
            f"{name}: expected numbers that {dtype} can hold. Received: one of {np.max(np.abs(values)):.3g}. Take "
            '"bfloat16", which reaches as far as float32, or "float32".'
        )
    return cast
