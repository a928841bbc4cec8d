"""TensorFlow's checkpoints by name (`bert_model.ckpt.index`, `.data-…`), read tensor by tensor."""

import contextlib
import glob
import math
import os
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kbert.keras_compat import without_pattern
from kbert.weights.files.tensor_file import TensorInfo, reading

if TYPE_CHECKING:
    import tensorflow as tf


class TFCheckpointFile:
    """A TensorFlow checkpoint as a `TensorFile`; `prefix` is the path without ``.index``.

    It is opened again for each tensor, which costs a quarter of a millisecond.
    """

    def __init__(self, prefix: str | os.PathLike) -> None:
        self.path = pathlib.Path(prefix)
        with reading(self.path, "the index"), open_reader(prefix) as reader:
            shapes = reader.get_variable_to_shape_map()
            dtypes = reader.get_variable_to_dtype_map()
        self.tensors = {name: TensorInfo(tuple(shapes[name]), dtypes[name].name) for name in sorted(shapes)}
        needed = sum(math.prod(shapes[name]) * dtypes[name].size for name in shapes)
        shards = sorted(self.path.parent.glob(f"{glob.escape(self.path.name)}.data-*"))
        size = sum(shard.stat().st_size for shard in shards)
        if size < needed:
            raise (ValueError if shards else FileNotFoundError)(
                f"{self.path}: the tensors named in the index take {needed} bytes. Received: {size} bytes, in "
                f"{[shard.name for shard in shards]}. Download or write the checkpoint again."
            )

    def read(self, name: str) -> np.ndarray:
        with reading(self.path, f"the tensor {name!r}"), open_reader(self.path) as reader:
            return reader.get_tensor(name)


@contextlib.contextmanager
def open_reader(prefix: str | os.PathLike) -> "Iterator[tf.train.CheckpointReader]":
    """TensorFlow's own reader of a checkpoint, wherever it lies."""
    import tensorflow as tf

    with without_pattern(prefix) as path:
        yield tf.train.load_checkpoint(path)
