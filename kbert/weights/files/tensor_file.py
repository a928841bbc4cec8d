"""The interface of every file of tensors: names and shapes at once, values one at a time."""

import dataclasses
import os
import pathlib
from typing import Protocol

import numpy as np

_LFS_POINTER = b"version https://git-lfs"


@dataclasses.dataclass(frozen=True, slots=True)
class TensorInfo:
    """Shape and element type of a tensor that has not been read yet."""

    shape: tuple[int, ...]
    dtype: str  # NumPy's name, or "bfloat16"


class TensorFile(Protocol):
    """Named tensors on disk. Opening reads names and shapes and checks the sizes; values are read on request.

    Attributes:
        path: the file, for messages.
        tensors: `TensorInfo` by name.
    """

    path: pathlib.Path
    tensors: dict[str, TensorInfo]

    def read(self, name: str) -> np.ndarray:
        """The values of one tensor as a new array; bfloat16 becomes float32, which is exact."""
        ...


def checked_file(path: str | os.PathLike) -> pathlib.Path:
    """The path of a file with content; an error explains a pointer file of Git LFS."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"No file at {str(path)!r}.")
    if path.stat().st_size == 0:
        raise ValueError(f"{str(path)!r} is empty. Download or write it again.")
    with path.open("rb") as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise ValueError(
                f"{str(path)!r} is not the weights but a Git LFS pointer to them. Fetch them with `git lfs pull`."
            )
    return path
