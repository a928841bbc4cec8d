"""The batches of a pre-training as NumPy files, which machines without TensorFlow train on (Keras on JAX).

A directory of batches holds

    batches.json           settings, the type and shape of each array, size and SHA-256 of each file; written last
    vocab.txt              the vocabulary
    train-00000.npz        arrays [n, B, ...] of n consecutive batches
    evaluation-00000.npz   the same, of the held-out documents

This module needs neither TensorFlow nor the records that the batches were made of; `write_batches` makes them.

Shapes: B batch, n batches of a file.
"""

import hashlib
import io
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from kbert.config import BertConfig
from kbert.errors import UnreadableInput
from kbert.files import read_json
from kbert.models.grow import grow_model
from kbert.models.pretrainer import BertPretrainer
from kbert.pretraining.run.course import Course, Phase
from kbert.pretraining.run.source import BATCHES, DataReport
from kbert.pretraining.run.starting_model import Start, make_new_model
from kbert.text.vocabulary import check_same_tokenizer, read_vocabulary
from kbert.weights.formats import huggingface
from kbert.weights.step_paths import MODEL

if TYPE_CHECKING:
    from kbert.training.hardware import Hardware


_STATISTICS_BATCHES = 20
FORMAT = "kbert batches 1"
MANIFEST, VOCABULARY = BATCHES, "vocab.txt"


class BatchFiles(keras.utils.PyDataset):
    """The batches in a directory, in order, as `model.fit` takes them on every backend.

    Attributes:
        manifest: dict, what batches.json holds.
        element_spec: (inputs, labels, sample weights) of `keras.KerasTensor`. The files have integers in a smaller type
            where they fit.
    """

    def __init__(self, directory: str | os.PathLike, start_step: int = 0, evaluation: bool = False):
        super().__init__()
        self.directory = pathlib.Path(directory)
        self.manifest = read_manifest(self.directory)
        self.kind = "evaluation" if evaluation else "train"
        self.start_step = start_step
        self._files = [file for file in self.manifest["files"] if file["kind"] == self.kind]
        self._total = sum(file["batches"] for file in self._files)
        self.element_spec = nested({name: keras.KerasTensor(**spec) for name, spec in self.manifest["arrays"].items()})
        self._loaded = (None, None)

    def __len__(self):
        return self._total - self.start_step

    def cardinality(self) -> int:
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


def nested(arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(inputs, labels, sample weights), dicts by name, of a dict whose keys are such as "inputs/token_ids"."""
    parts = {"inputs": {}, "labels": {}, "weights": {}}
    for path, value in arrays.items():
        part, name = path.split("/")
        parts[part][name] = value
    return tuple(parts.values())


def read_manifest(directory: str | os.PathLike) -> dict:
    """What batches.json holds; ValueError if it or a file of batches is missing or truncated."""
    directory = pathlib.Path(directory)
    path = directory / MANIFEST
    if not path.is_file():
        raise ValueError(f"Expected a directory of batches (kbert batches). Received: {str(directory)!r}")
    manifest = read_json(path)
    if manifest.get("format") != FORMAT:
        raise ValueError(f"{path}: expected a manifest of {FORMAT!r}. Received: {manifest.get('format')!r}")
    for file in manifest["files"]:
        stored = directory / file["name"]
        if not stored.is_file() or stored.stat().st_size != file["bytes"]:
            raise ValueError(
                f"{stored} is missing or truncated: expected {file['bytes']:,} bytes. Write the batches again."
            )
    return manifest


def _read_arrays(path, file):
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != file["sha256"]:
        raise UnreadableInput(f"{path} is damaged: its SHA-256 is not the manifest's. Write the batches again.")
    with np.load(io.BytesIO(content)) as arrays:
        return dict(arrays)


def stored_model(
    init: str | os.PathLike,
    next_sentence: bool,
    vocabulary: Sequence[str],
    tokenizer_settings: dict[str, Any],
    changes: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
) -> BertPretrainer:
    """The model in a directory, or in ``model/`` below it, to train on rows of this vocabulary.

    Without `kbert.load_pretrained`, which needs TensorFlow for its tokenizer. `changes` are fields of its `BertConfig`.
    """
    paths = (pathlib.Path(init), pathlib.Path(init) / MODEL) if isinstance(init, str | os.PathLike) else ()
    path = next((path for path in paths if huggingface.recognizes(path)), None)
    if path is None:
        received = repr(os.fspath(init)) if paths else type(init).__name__
        raise ValueError(
            "pretrain: `init` must be a model directory for a training on batches (kbert convert writes one). "
            f"Received: {received}"
        )
    stored = huggingface.read(path)
    task = "pretraining" if next_sentence else "masked_lm"
    if stored.description.task != task:
        raise ValueError(
            f"pretrain: the batches are for a {task} model. Received: {path}, a {stored.description.task} model"
        )
    if stored.description.quantized_layers:
        raise ValueError(f"pretrain: training needs float weights. Received: {path}, a quantised model")
    own = stored.vocabulary or [], stored.settings.tokenizer
    check_same_tokenizer("pretrain: the batches", own, (vocabulary, tokenizer_settings))
    config = BertConfig.from_dict(stored.description.config.to_dict() | dict(changes))
    model = BertPretrainer(config, next_sentence=next_sentence, **stored.description.arguments)
    stored.load_into(model)
    return model


class StoredBatches:
    """A directory of batches as a run learns from it, in place of a `corpus_data.CorpusData`.

    `tokenizer` is None on other backends than TensorFlow's, which may be without it.
    """

    held_out = None  # was decided when they were written
    left_to_right = False

    def __init__(self, directory: str | os.PathLike, course: Course):
        self.directory = pathlib.Path(directory)
        self.manifest = read_manifest(self.directory)
        stored = self.manifest["steps"]
        steps = stored if course.steps is None else course.steps
        if steps > stored:
            raise ValueError(f"pretrain: `steps` must be from 1 to {stored}, the number of batches. Received: {steps}")
        rows, length = self.manifest["batch_size"], self.manifest["sequence_length"]
        self.course = Course((Phase(length, 1.0, rows, self.manifest["max_predictions"]),), steps, course.multiple)
        self.packed = self.manifest["packed"]
        self.num_parts = self.manifest["num_parts"]
        self.vocabulary = read_vocabulary(self.directory / VOCABULARY)
        self.tokenizer_settings = self.manifest["tokenizer"]
        self.tokenizer = None
        if keras.backend.backend() == "tensorflow":
            from kbert.text.tokenizer import BertTokenizer  # not above: it loads TensorFlow

            self.tokenizer = BertTokenizer(self.vocabulary, **self.tokenizer_settings)

    def starting_model(self, start: Start, hardware: "Hardware") -> BertPretrainer:
        """The model that the run starts from."""
        next_sentence = self.manifest["next_sentence"]
        with hardware.scope():
            if start.init is None:
                return make_new_model(
                    start,
                    self.vocabulary,
                    next_sentence=next_sentence,
                    left_to_right=False,
                    sequence_length=self.course.sequence_length,
                )
            tokenizer = self.vocabulary, self.tokenizer_settings
            model = stored_model(start.init, next_sentence, *tokenizer, start.dropout_fields)
            return model if start.size is None else grow_model(model, start.size, seed=start.seed)

    def choose_packing(self, decided: bool | None = None) -> bool:
        """Whether rows are packed was decided when they were written."""
        return self.packed

    def batches(self, phase: int) -> BatchFiles:
        """The batches of training."""
        return BatchFiles(self.directory)

    def from_step(self, phase: int, start_step: int) -> BatchFiles:
        """The batches from a step on, as `train` asks for them."""
        return BatchFiles(self.directory, start_step)

    def evaluations(self, batches: int, parts: int = 1) -> list:
        """The held-out batches of the one phase. Their number was decided when they were written."""
        return [BatchFiles(self.directory, evaluation=True)]

    def count_sequences(self) -> dict:
        """Empty: stored batches do not record the length of an epoch."""
        return {}

    def describe(self, evaluation: BatchFiles) -> DataReport:
        """The fraction of tokens that are not padding; neither metrics nor the tokens of an epoch are known."""
        training = BatchFiles(self.directory)
        masks = [training[n][0]["padding_mask"] for n in range(min(_STATISTICS_BATCHES, len(training)))]
        return DataReport([float(np.mean(masks))], {}, None)
