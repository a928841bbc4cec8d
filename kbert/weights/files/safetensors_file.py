"""The safetensors format: read by its own library, written tensor by tensor.

kbert has its own writer because the library's `save_file` needs all tensors in memory at once; here it is only one.
"""

import json
import math
import os
import pathlib
from collections.abc import Callable, Mapping

import ml_dtypes  # noqa: F401  # registers bfloat16 in NumPy, where the library looks it up by name
import numpy as np
from safetensors import safe_open

from kbert.weights.files.tensor_file import TensorInfo, check_not_pointer, reading

_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I8": "int8"}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


class SafetensorsFile:
    """A `.safetensors` file as a `TensorFile`.

    It is opened again for each tensor, because the library maps it into memory and checks its length only when it opens
    it. A type that no weights of kbert have keeps the format's name for it.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = pathlib.Path(path)
        check_not_pointer(self.path)
        with reading(self.path), safe_open(self.path, framework="np") as file:
            self.metadata: dict[str, str] = file.metadata() or {}
            slices = {name: file.get_slice(name) for name in file.keys()}
            self.tensors = {
                name: TensorInfo(tuple(tensor.get_shape()), _DTYPES.get(tensor.get_dtype(), tensor.get_dtype()))
                for name, tensor in slices.items()
            }

    def read(self, name: str) -> np.ndarray:
        with reading(self.path, f"the tensor {name!r}"), safe_open(self.path, framework="np") as file:
            values = file.get_tensor(name)
        return values.astype(np.float32) if self.tensors[name].dtype == "bfloat16" else values


def write_safetensors(
    path: str | os.PathLike,
    tensors: Mapping[str, tuple[tuple[int, ...], Callable[[], np.ndarray]]],
    dtypes: Mapping[str, str] | None = None,
    **metadata: str,
) -> None:
    """Writes tensors to a `.safetensors` file, one in memory at a time.

    `tensors` maps a name to (shape, function that returns the values), and `dtypes` to the type that they are cast to,
    float32 by default. `metadata` are strings for the file's header.
    """
    dtypes = dict.fromkeys(tensors, "float32") | dict(dtypes or {})
    header = {"__metadata__": metadata} if metadata else {}
    end = 0
    for name, (shape, _) in tensors.items():
        begin, end = end, end + np.dtype(dtypes[name]).itemsize * math.prod(shape)
        header[name] = {"dtype": _CODES[dtypes[name]], "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode("utf-8")
    text += b" " * (-len(text) % 8)  # readers that map the file need data that begin at a multiple of 8
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, (shape, values) in tensors.items():
            array = _cast(values(), dtypes[name], name)
            if array.shape != tuple(shape):
                raise ValueError(
                    f"The tensor {name!r} was announced with shape {tuple(shape)}. Received: {array.shape}"
                )
            file.write(array.view(np.uint8).data if array.ndim else array.tobytes())


def _cast(values: np.ndarray, dtype: str, name: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        cast = np.asarray(values).astype(dtype, order="C", copy=False)
    if cast.dtype.itemsize == 2 and np.any(np.isinf(cast) & np.isfinite(values)):
        raise ValueError(
            f"{name}: {np.max(np.abs(values)):.3g} is beyond the range of {dtype}. Use bfloat16, which reaches as far "
            "as float32, or float32."
        )
    return cast
