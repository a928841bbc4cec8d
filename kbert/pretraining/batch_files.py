"""The batches of a pre-training as NumPy files, which machines without TensorFlow train on (Keras on JAX).

A directory of batches holds

    batches.json           settings, the type and shape of each array, size and SHA-256 of each file; written last
    vocab.txt              the vocabulary
    train-00000.npz        arrays [n, B, ...] of n consecutive batches
    evaluation-00000.npz   the same, of the held-out documents

This module needs neither TensorFlow nor the records that the batches were made of; `write_batches` makes them.

Shapes: B batch, n batches of a file.
"""

import dataclasses
import hashlib
import io
import os
import pathlib
import zipfile

import keras
import numpy as np

from kbert.corpus.reading_errors import UnreadableInput
from kbert.files import read_json

FORMAT = "kbert batches 1"
MANIFEST, VOCABULARY = "batches.json", "vocab.txt"
_KEYS = (
    "format",
    "batch_size",
    "steps",
    "arrays",
    "files",
    "vocabulary_size",
    "sequence_length",
    "num_parts",
    "tokenizer",
)


@dataclasses.dataclass(frozen=True)
class ArraySpec:
    """Shape and type of one array of a batch; `write_batches` stores integers in a smaller type where they fit."""

    shape: tuple[int, ...]
    dtype: str


class BatchFiles(keras.utils.PyDataset):
    """The batches in a directory, in order, as `model.fit` takes them on every backend.

    Args:
        directory: written by `kbert.pretraining.run.write_batches` or kbert batches.
        start_step: int, the number of the first batch.
        evaluation: whether to give the batches of the held-out documents instead.

    Attributes:
        manifest: dict, what batches.json holds.
        element_spec: (inputs, labels, sample weights) of `ArraySpec`.

    Raises:
        ValueError: no such directory or a damaged one, too large a `start_step`; when a batch is read, a damaged file.
    """

    def __init__(self, directory, start_step=0, evaluation=False):
        super().__init__()
        self.directory = pathlib.Path(directory)
        self.manifest = read_manifest(self.directory)
        self.kind = "evaluation" if evaluation else "train"
        self.start_step = start_step
        self._files = [file for file in self.manifest["files"] if file["kind"] == self.kind]
        self._total = sum(file["batches"] for file in self._files)
        if not 0 <= start_step <= self._total:
            raise ValueError(
                f"{self.directory} has {self._total} batches. Expected `start_step` from 0 to that. "
                f"Received: {start_step}"
            )
        self.element_spec = nested(
            {name: ArraySpec(tuple(spec["shape"]), spec["dtype"]) for name, spec in self.manifest["arrays"].items()}
        )
        self._loaded = (None, None)

    def __len__(self):
        return self._total - self.start_step

    def cardinality(self):
        """The number of batches, as a `tf.data.Dataset` has it."""
        return len(self)

    def __getitem__(self, index):
        position = self.start_step + index
        for file in self._files:
            if position < file["batches"]:
                arrays = self._arrays(file)
                specs = self.manifest["arrays"].items()
                return nested({name: np.asarray(arrays[name][position], spec["dtype"]) for name, spec in specs})
            position -= file["batches"]
        raise IndexError(index)

    def _arrays(self, file):
        name, arrays = self._loaded
        if name != file["name"]:
            arrays = _read_arrays(self.directory / file["name"], file)
            self._loaded = (file["name"], arrays)
        return arrays


def nested(arrays):
    """(inputs, labels, sample weights), dicts by name, of a dict whose keys are such as "inputs/token_ids"."""
    parts = {"inputs": {}, "labels": {}, "weights": {}}
    for path, value in arrays.items():
        part, name = path.split("/")
        parts[part][name] = value
    return tuple(parts.values())


def is_batches(source) -> bool:
    """Whether a source of `kbert.pretrain` is a directory of batches."""
    return isinstance(source, str | os.PathLike) and os.path.isfile(os.path.join(source, MANIFEST))


def read_manifest(directory) -> dict:
    """What batches.json holds; ValueError if it or a file of batches is missing or truncated."""
    directory = pathlib.Path(directory)
    path = directory / MANIFEST
    if not path.is_file():
        raise ValueError(f"Expected a directory of batches (kbert batches). Received: {str(directory)!r}")
    manifest = read_json(path)
    if manifest.get("format") != FORMAT or any(name not in manifest for name in _KEYS):
        raise ValueError(f"{path}: expected a manifest of {FORMAT!r}. Received: {manifest.get('format')!r}")
    for file in manifest["files"]:
        found = directory / file["name"]
        if not found.is_file() or found.stat().st_size != file["bytes"]:
            raise ValueError(
                f"{found} is missing or truncated: expected {file['bytes']:,} bytes. Write the batches again."
            )
    return manifest


def _read_arrays(path, file):
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != file["sha256"]:
        raise UnreadableInput(f"{path} is damaged: its SHA-256 is not the manifest's. Write the batches again.")
    try:
        with np.load(io.BytesIO(content)) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:  # a matching hash of no .npz
        raise UnreadableInput(f"{path} is not a NumPy archive ({error}). Write the batches again.") from error
