"""TensorFlow's checkpoints by name (`bert_model.ckpt.index`, `.data-…`), read tensor by tensor."""

import contextlib
import glob
import math
import os
import pathlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kbert.keras_compat import without_pattern
from kbert.weights.files.tensor_file import TensorInfo

if TYPE_CHECKING:
    import tensorflow as tf

_SHARD = re.compile(r"\.data-\d{5}-of-(\d{5})$")


class TFCheckpointFile:
    """A TensorFlow checkpoint as a `TensorFile`; `prefix` is the path without ``.index``.

    It is opened again for each tensor, which costs a quarter of a millisecond.
    """

    def __init__(self, prefix: str | os.PathLike) -> None:
        import tensorflow as tf

        self.path = pathlib.Path(prefix)
        shards = self._shards()
        self._errors = (tf.errors.OpError, RuntimeError, IndexError)
        try:
            with open_reader(prefix) as reader:
                shapes = reader.get_variable_to_shape_map()
                dtypes = reader.get_variable_to_dtype_map()
        except self._errors as error:
            raise ValueError(
                f"{prefix}.index cannot be read: {_first_line(error)}. Download or write it again."
            ) from None
        self.tensors = {name: TensorInfo(tuple(shapes[name]), dtypes[name].name) for name in sorted(shapes)}
        needed = sum(math.prod(shapes[name]) * dtypes[name].size for name in shapes)
        size = sum(shard.stat().st_size for shard in shards)
        if size < needed:
            raise ValueError(
                f"{shards[0]} is truncated: the tensors named in the index take {needed} bytes. Received: {size} "
                "bytes. Download or write it again."
            )

    def read(self, name: str) -> np.ndarray:
        try:
            with open_reader(self.path) as reader:
                return reader.get_tensor(name)
        except self._errors as error:
            raise ValueError(f"{self.path}: the tensor {name!r} cannot be read: {_first_line(error)}") from None

    def _shards(self):
        if not self.path.with_name(self.path.name + ".index").is_file():
            raise FileNotFoundError(
                f"No TensorFlow checkpoint at {str(self.path)!r}: there is no {self.path.name}.index."
            )
        names = self.path.parent.glob(f"{glob.escape(self.path.name)}.data-*")
        shards = sorted(path for path in names if _SHARD.search(path.name))
        announced = int(_SHARD.search(shards[0].name)[1]) if shards else 1
        if len(shards) != announced:
            raise FileNotFoundError(
                f"{self.path}.index is there, but not the weights beside it: expected {announced} files "
                f"{self.path.name}.data-…. Received: {[shard.name for shard in shards]}"
            )
        return shards


@contextlib.contextmanager
def open_reader(prefix: str | os.PathLike) -> "Iterator[tf.train.CheckpointReader]":
    """TensorFlow's own reader of a checkpoint, wherever it lies."""
    import tensorflow as tf

    with without_pattern(prefix) as path:
        yield tf.train.load_checkpoint(path)


def _first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0]
