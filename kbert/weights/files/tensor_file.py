"""The interface of every file of tensors: names and shapes at once, values one at a time."""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Iterator
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
        """The values of one tensor; bfloat16 becomes float32, which is exact."""
        ...


def read_finite(file: TensorFile, name: str) -> np.ndarray:
    """The values of a tensor of weights. Raises ValueError if some are not finite."""
    values = file.read(name)
    if not np.all(np.isfinite(values)):
        raise ValueError(f"{file.path}: the tensor {name!r} holds values that are not finite.")
    return values


class RefusedFile(ValueError):
    """A file that could do harm, such as a pickle that calls functions."""


@contextlib.contextmanager
def reading(path: str | os.PathLike, what: str = "") -> Iterator[None]:
    """Turns errors into a ValueError with the file's name: for a damaged file, libraries raise nearly anything."""
    try:
        yield
    except RefusedFile as error:
        raise RefusedFile(f"{str(path)!r} is refused: {error}") from None
    except Exception as error:
        subject = f"{str(path)!r}: {what}" if what else repr(str(path))
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(
            f"{subject} cannot be read: {reason}. The file is truncated, corrupted or of another kind. Download or "
            "write it again."
        ) from error


def check_not_pointer(path: pathlib.Path) -> None:
    """Raises ValueError for the few lines that `git clone` writes in place of a large file where Git LFS is missing."""
    with path.open("rb") as file:
        if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
            raise ValueError(
                f"{str(path)!r} is not the weights but a Git LFS pointer to them. Fetch them with `git lfs pull`."
            )
