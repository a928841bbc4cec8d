"""What PyTorch's pickles may name: plain records and functions that replace torch's own and execute nothing."""

import dataclasses
import pickle

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


@dataclasses.dataclass(frozen=True, slots=True)
class StoredData:
    """The values that tensors are views of: the name of their file, their type and their number."""

    key: str
    dtype: str
    size: int  # elements


@dataclasses.dataclass(frozen=True, slots=True)
class TensorView:
    """A tensor: where in its data it begins, and its strides."""

    storage: StoredData
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements


def _rebuild_tensor(storage, offset, shape, strides, *_):
    if not isinstance(storage, StoredData):
        raise pickle.UnpicklingError("a tensor without data")
    if any(type(axes) is not tuple or len(axes) > _MOST_AXES for axes in (shape, strides)):
        raise pickle.UnpicklingError("a tensor without a shape")
    if any(type(number) is not int for number in (offset, *shape, *strides)):
        raise pickle.UnpicklingError("a tensor whose shape is not numbers")
    return TensorView(storage, offset, shape, strides)


def _rebuild_parameter(tensor, *_):
    return tensor


def _ordered_dict(items=()):
    """Empties its list, so that no short pickle makes many long dicts; Python 2 passes entries to the call."""
    found = {}
    for key, value in items:
        if type(key) is not str:
            raise pickle.UnpicklingError("a key of a dict that is not a string")
        found[key] = value
    if items:
        items.clear()
    return found


def _size(axes=()):
    return axes


def stored_data(pid) -> StoredData:
    """The value of a persistent id; ids that are not torch's are refused."""
    if type(pid) is not tuple or len(pid) not in (5, 6):
        raise pickle.UnpicklingError("a persistent id that torch does not write")
    kind, dtype, key, _, size, *view = pid
    strings = all(type(value) is str for value in (kind, dtype, key))
    if not strings or kind != "storage" or dtype not in _DTYPES or view not in ([], [None]):
        raise pickle.UnpicklingError("data of an unknown kind")
    if type(size) is not int or not 0 <= size < 2**60:
        raise pickle.UnpicklingError(f"data of {size!r} elements")
    return StoredData(key, _DTYPES[dtype], size)


KNOWN_NAMES = {
    ("collections", "OrderedDict"): _ordered_dict,
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch", "Size"): _size,
    **{("torch", name): name for name in _DTYPES},  # strings name the type of data and cannot be called
}
