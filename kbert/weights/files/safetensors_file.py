"""The safetensors format, read and written tensor by tensor.

The file: 8 bytes N (little endian), N bytes of JSON (name → dtype, shape, data_offsets), then the values, row-major.
"""

import json
import math
import os
import reprlib
from collections.abc import Callable, Mapping

import numpy as np

from kbert.files import parse_json
from kbert.weights.files.tensor_file import TensorInfo, checked_file, widened

_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
_LONGEST_HEADER = 100_000_000  # bytes; the bound of the format's own library


class SafetensorsFile:
    """A `.safetensors` file as a `TensorFile`. Holds no code, and needs no other library.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not this format, truncated, or sizes that contradict each other; nothing is read then.

    Source: the format's description, github.com/huggingface/safetensors.

    Example::

        file = SafetensorsFile("model.safetensors")
        file.tensors["embeddings.word_embeddings.weight"].shape  # (30522, 384)
        table = file.read("embeddings.word_embeddings.weight")
    """

    def __init__(self, path: str | os.PathLike):
        self.path = checked_file(path)
        header, self._data_start = self._read_header()
        data_size = self.path.stat().st_size - self._data_start
        self.tensors, self._begins, self._ends = {}, {}, {}
        for name, entry in header.items():
            if name != "__metadata__":
                self._add(name, entry, data_size)
        self._check_overlap()

    def read(self, name: str) -> np.ndarray:
        info = self.tensors[name]
        stored = np.dtype("<u2" if info.dtype == "bfloat16" else info.dtype).newbyteorder("<")
        values = np.empty(info.shape, dtype=stored)
        with self.path.open("rb") as file:
            file.seek(self._data_start + self._begins[name])
            if file.readinto(values.reshape(-1).view(np.uint8).data) != values.nbytes:
                raise ValueError(f"{str(self.path)!r} ends within the tensor {name!r}. Download or write it again.")
        return widened(values) if info.dtype == "bfloat16" else values

    def _read_header(self):
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > _LONGEST_HEADER:
                raise ValueError(
                    f"{str(self.path)!r} is not a safetensors file: it does not begin with a header's length."
                )
            if 8 + length > size:
                raise ValueError(
                    f"{str(self.path)!r} is truncated: a header of {length} bytes is announced. Received: a file of "
                    f"{size} bytes. Download or write it again."
                )
            header = parse_json(file.read(length), f"the header of {str(self.path)!r}")
        if not isinstance(header, dict):
            raise ValueError(f"{str(self.path)!r} is not a safetensors file: its header is no JSON object.")
        return header, 8 + length

    def _add(self, name, entry, data_size):
        try:
            dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
            sound = isinstance(dtype, str) and all(type(n) is int and n >= 0 for n in (*shape, begin, end))
        except (KeyError, TypeError, ValueError):
            sound = False
        if not sound:
            raise ValueError(
                f"{str(self.path)!r}: the header's entry for {name!r} makes no sense. Received: {reprlib.repr(entry)}"
            )
        if dtype not in _DTYPES:
            raise ValueError(
                f"{str(self.path)!r}: the tensor {name!r} has the type {dtype}, which kbert does not read (it reads "
                f"{', '.join(_DTYPES)}). Quantised weights have to be converted back first."
            )
        info = TensorInfo(shape, _DTYPES[dtype])
        size = math.prod(shape) * (2 if info.dtype == "bfloat16" else np.dtype(info.dtype).itemsize)
        if end - begin != size:
            raise ValueError(
                f"{str(self.path)!r}: the tensor {name!r} of shape {shape} and type {dtype} takes {size} bytes. "
                f"Received: {end - begin} bytes. The file is corrupted."
            )
        if end > data_size:
            raise ValueError(
                f"{str(self.path)!r} is truncated: the tensor {name!r} ends at byte {end} of the data. Received: "
                f"{data_size} bytes of data. Download or write it again."
            )
        self.tensors[name] = info
        self._begins[name], self._ends[name] = begin, end

    def _check_overlap(self):
        """As in the format's own library: no byte belongs to two tensors."""
        last = 0
        for name in sorted(self._begins, key=lambda name: (self._begins[name], self._ends[name])):
            if self._begins[name] < last:
                raise ValueError(
                    f"{str(self.path)!r} is corrupted: the tensor {name!r} begins at byte {self._begins[name]} of the "
                    f"data, within the one before it, which ends at {last}."
                )
            last = self._ends[name]


def looks_like_safetensors(path: str | os.PathLike) -> bool:
    """Whether a file begins as this format does: a length, then JSON."""
    with open(path, "rb") as file:
        start = file.read(9)
    return len(start) == 9 and start[8:] == b"{" and int.from_bytes(start[:8], "little") <= _LONGEST_HEADER


def write_safetensors(
    path: str | os.PathLike, tensors: Mapping[str, tuple[tuple[int, ...], Callable[[], np.ndarray]]], **metadata: str
) -> None:
    """Writes float32 tensors to a `.safetensors` file, one in memory at a time.

    Args:
        path: the file to write.
        tensors: name → (shape, function that returns the values).
        **metadata: strings for the file's header.

    Example::

        write_safetensors("model.safetensors", {"pooler.dense.bias": ((12,), lambda: np.zeros(12))}, format="pt")
    """
    header, end = {"__metadata__": metadata} if metadata else {}, 0
    for name, (shape, _) in tensors.items():
        begin, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode("utf-8")
    text += b" " * (-len(text) % 8)  # the data begin at a multiple of 8, as readers that map the file want it
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, (shape, values) in tensors.items():
            array = np.asarray(values(), dtype="<f4", order="C")
            if array.shape != tuple(shape):
                raise ValueError(
                    f"The tensor {name!r} was announced with shape {tuple(shape)}. Received: {array.shape}"
                )
            file.write(array.data)
