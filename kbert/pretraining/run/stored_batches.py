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
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from kbert.config import BertConfig
from kbert.errors import UnreadableInput
from kbert.files import read_json, write_directory
from kbert.models.grow import grow_model
from kbert.models.pretrainer import BertPretrainer
from kbert.pretraining.run.course import Course, Phase, Stage
from kbert.pretraining.run.options import Masking
from kbert.pretraining.run.source import BATCHES, DataReport
from kbert.pretraining.run.starting_model import Start, make_new_model
from kbert.text.vocabulary import check_same_tokenizer, read_vocabulary
from kbert.weights.formats import huggingface

if TYPE_CHECKING:
    from kbert.pipelines.settings import ModelSettings
    from kbert.training.hardware import Hardware


_STATISTICS_BATCHES = 20
FORMAT = "kbert batches 1"
MANIFEST, VOCABULARY = BATCHES, "vocab.txt"
_KEYS = {"batch_size", "steps", "arrays", "files", "vocabulary_size", "sequence_length", "num_parts", "tokenizer"}


@dataclasses.dataclass(frozen=True)
class ArraySpec:
    """Shape and type of one array of a batch; `write_batches` stores integers in a smaller type where they fit."""

    shape: tuple[int, ...]
    dtype: str


class BatchFiles(keras.utils.PyDataset):
    """The batches in a directory, in order, as `model.fit` takes them on every backend.

    Attributes:
        manifest: dict, what batches.json holds.
        element_spec: (inputs, labels, sample weights) of `ArraySpec`.
    """

    def __init__(self, directory: str | os.PathLike, start_step: int = 0, evaluation: bool = False):
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


def stored_phase(manifest: Mapping[str, Any]) -> Phase:
    """The one phase of stored batches."""
    predictions = manifest["arrays"]["inputs/mask_positions"]["shape"][1]
    return Phase(manifest["sequence_length"], 1.0, manifest["batch_size"], predictions)


def read_manifest(directory: str | os.PathLike) -> dict:
    """What batches.json holds; ValueError if it or a file of batches is missing or truncated."""
    directory = pathlib.Path(directory)
    path = directory / MANIFEST
    if not path.is_file():
        raise ValueError(f"Expected a directory of batches (kbert batches). Received: {str(directory)!r}")
    manifest = read_json(path)
    if manifest.get("format") != FORMAT or not _KEYS <= manifest.keys():
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
    try:
        with np.load(io.BytesIO(content)) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, zipfile.BadZipFile) as error:  # a matching hash of no .npz
        raise UnreadableInput(f"{path} is not a NumPy archive ({error}). Write the batches again.") from error


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
    paths = (pathlib.Path(init), pathlib.Path(init) / "model") if isinstance(init, str | os.PathLike) else ()
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

    def __init__(self, directory: str | os.PathLike, course: Course):
        self.directory = pathlib.Path(directory)
        self.manifest = read_manifest(self.directory)
        if self.manifest.get("left_to_right"):
            raise ValueError("pretrain: expected batches with masked tokens. Received: batches with left_to_right=True")
        stored = sum(file["batches"] for file in self.manifest["files"] if file["kind"] == "train")
        steps = stored if course.steps is None else course.steps
        if steps > stored:
            raise ValueError(f"pretrain: `steps` must be from 1 to {stored}, the number of batches. Received: {steps}")
        phase = stored_phase(self.manifest)
        self.course = Course((phase,), steps=steps, multiple=course.multiple)
        self.decided = {
            "next_sentence": "labels/nsp_logits" in self.manifest["arrays"],
            "packed": self.manifest["num_parts"] is not None,
            "batch_size": self.manifest["batch_size"],
            "sequence_length": self.manifest["sequence_length"],
            "masking": Masking(max_predictions=phase.max_predictions),  # as settings.json has it
        }
        self.packed = self.decided["packed"]
        self.num_parts = self.manifest["num_parts"]
        self.vocabulary = read_vocabulary(self.directory / VOCABULARY)
        self.tokenizer_settings = self.manifest["tokenizer"]
        self.tokenizer = None
        if keras.backend.backend() == "tensorflow":
            from kbert.text.tokenizer import BertTokenizer  # not above: it loads TensorFlow

            self.tokenizer = BertTokenizer(self.vocabulary, **self.tokenizer_settings)

    def starting_model(self, start: Start, hardware: "Hardware", keep_given: bool = False) -> BertPretrainer:
        """The model that the run starts from."""
        with hardware.scope():
            if start.init is None:
                return make_new_model(
                    start,
                    self.vocabulary,
                    next_sentence=self.decided["next_sentence"],
                    left_to_right=False,
                    sequence_length=self.course.sequence_length,
                )
            tokenizer = self.vocabulary, self.tokenizer_settings
            model = stored_model(start.init, self.decided["next_sentence"], *tokenizer, start.dropout_fields)
            if model.config.causal:
                raise ValueError(
                    f"pretrain: `init` must be a bidirectional model. Received: {start.init}, a left-to-right one"
                )
            return model if start.size is None else grow_model(model, start.size, seed=start.seed)

    def choose_packing(self) -> bool:
        """Whether rows are packed was decided when they were written."""
        return self.num_parts is not None

    def batches(self, stage: Stage) -> BatchFiles:
        """The batches of training."""
        return BatchFiles(self.directory)

    def from_step(self, start_step: int, stage: int) -> BatchFiles:
        """The batches from a step on, as `train` asks for them."""
        return BatchFiles(self.directory, start_step)

    def evaluations(self) -> dict:
        """The held-out batches, of the one phase that there is."""
        return {0: BatchFiles(self.directory, evaluation=True)}

    def count_sequences(self) -> dict:
        """Nothing: of how long an epoch was the batches do not know."""
        return {}

    def describe(self, evaluation: BatchFiles) -> DataReport:
        """The fraction of tokens that are not padding; neither metrics nor the tokens of an epoch are known."""
        training = BatchFiles(self.directory)
        masks = [training[n][0]["padding_mask"] for n in range(min(_STATISTICS_BATCHES, len(training)))]
        return DataReport([float(np.mean(masks))], {}, None)

    def baseline(self, metrics: Mapping) -> dict:
        """None: token frequencies were not counted."""
        return {}

    def save(
        self, model: BertPretrainer, settings: "ModelSettings", path: str | os.PathLike, made_by: dict[str, Any] | None
    ) -> None:
        """Writes the model of the run, without `kbert.save_pretrained`, which needs TensorFlow."""

        def write(partial):
            huggingface.write(partial, model, settings, self.vocabulary, made_by=made_by)

        write_directory(path, write, needed=4 * model.count_params())
