"""Vectors with names and labels, for TensorBoard's projector.

Keras' own writer (`embeddings_freq` of its TensorBoard callback) makes files that the projector does not read.

Shapes: n vectors, H hidden.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from kbert.files import atomic_file

CONFIG = "projector_config.pbtxt"  # the name that TensorBoard looks for
_BREAKS = str.maketrans(dict.fromkeys("\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Embeddings:
    """Named vectors, float [n, H], with columns of n values that the projector shows and colours by.

    The first column is each vector's own name.
    """

    name: str
    vectors: np.ndarray
    columns: Mapping[str, Sequence]

    def __post_init__(self):
        sizes = {name: len(values) for name, values in self.columns.items()}
        if np.ndim(self.vectors) != 2 or not sizes or set(sizes.values()) != {len(self.vectors)}:
            raise ValueError(
                f"Embeddings {self.name!r}: expected `vectors` [n, H] and columns of n values each, at least one. "
                f"Received: shape {np.shape(self.vectors)} and {sizes}"
            )
        if not len(self.vectors) or not np.isfinite(self.vectors).all():
            raise ValueError(
                f"Embeddings {self.name!r}: expected finite numbers, at least one vector. Received: others"
            )


def write_projector(directory, embeddings: Sequence[Embeddings]) -> None:
    """Writes vectors and their columns as TSV, and the config that makes the projector show them.

    TensorBoard looks for the config when it first finds the run: write it before the run's events.
    The embeddings must have different names.
    """
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    names = [one.name for one in embeddings]
    if len(set(names)) < len(names):
        raise ValueError(f"write_projector: expected embeddings of different names. Received: {names}")
    directory, config = pathlib.Path(directory), ProjectorConfig()
    directory.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(embeddings):
        vectors, metadata = f"projector_{number}.tsv", f"projector_{number}_labels.tsv"
        with atomic_file(directory / vectors) as file:
            for row in np.asarray(one.vectors, "float32"):
                file.write("\t".join(f"{value:.6g}" for value in row) + "\n")
        with atomic_file(directory / metadata) as file:
            file.writelines("\t".join(row) + "\n" for row in _metadata(one.columns))
        config.embeddings.add(
            tensor_name=one.name, tensor_path=vectors, metadata_path=metadata, tensor_shape=np.shape(one.vectors)
        )
    with atomic_file(directory / CONFIG) as file:
        file.write(text_format.MessageToString(config, as_utf8=True))


def _metadata(columns):
    """Rows of cells, the header first; TensorBoard takes a single column for values without a header."""
    columns = dict(columns)
    if len(columns) == 1:
        columns["number"] = range(len(next(iter(columns.values()))))
    yield [_cell(name) for name in columns]
    for row in zip(*columns.values(), strict=True):
        yield [_cell(value) for value in row]


def _cell(value):
    """A value in one line and one column; an empty one would look like a missing line."""
    return str(value).translate(_BREAKS).strip() or "(empty)"
