"""The models of a playground: known by name, loaded when first used, shared by all who ask."""

import functools
import pathlib
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

import keras

from kbert.aliases import PathLike
from kbert.models.encoder import BertEncoder
from kbert.models.pretrainer import BertPretrainer
from kbert.serving.exported_pipeline import ExportedPipeline
from kbert.serving.saved_model_file import find_export
from kbert.weights.build_pipeline import build_pipeline
from kbert.weights.load import load_pretrained
from kbert.weights.source import open_checkpoint

if TYPE_CHECKING:
    from kbert.models.bert_model import BertModel
    from kbert.pipelines.pipeline import Pipeline
    from kbert.text.tokenizer import BertTokenizer


class Model:
    """One of the models. Use changes nothing, so any number of threads may ask.

    Attributes:
        source: a path or name as `kbert.load_pretrained` takes it, or the directory of a SavedModel.
        is_saved_model: whether it is a SavedModel of `kbert.export`, which only answers.

    Raises:
        OSError, ValueError: there is no such model, or it has no vocabulary. Weights are not read yet.
    """

    def __init__(self, source: PathLike) -> None:
        self.source = str(source)
        self.is_saved_model = find_export(source) is not None and not (pathlib.Path(source) / "model").is_dir()
        self._lock = threading.RLock()
        if not self.is_saved_model and open_checkpoint(source).vocabulary is None:
            raise ValueError(f"{source}: expected a model with a vocabulary. Received: one without")

    @functools.cached_property
    def _loaded(self) -> "BertModel":
        if self.is_saved_model:
            raise ValueError(f"{self.source} is a SavedModel, which only answers. Expected a model of kbert.")
        return load_pretrained(self.source)

    @property
    def model(self) -> "BertModel":
        """The model for plain rows: one that was trained on packed rows takes them apart."""
        with self._lock:
            model = self._loaded
            is_packed = isinstance(model, BertEncoder | BertPretrainer) and model.encoder.num_parts is not None
            return model.with_parts(None) if is_packed else model

    @property
    def tokenizer(self) -> "BertTokenizer":
        with self._lock:
            return self._loaded.pretrained.tokenizer

    @functools.cached_property
    def _pipeline(self):
        if self.is_saved_model:
            return ExportedPipeline(self.source)
        options = self._loaded.pretrained.settings.task.prediction_options()
        return build_pipeline(self.model, self.tokenizer, **options)

    @property
    def pipeline(self) -> "Pipeline | ExportedPipeline":
        """What answers strings."""
        with self._lock:
            return self._pipeline


def named_models(sources: Iterable[PathLike]) -> dict[str, Model]:
    """The models by the last part of their path that says something; two of one name have their whole path.

    Raises:
        ValueError: no model, or Keras' backend is not TensorFlow.
        OSError, ValueError: as for `Model`.
    """
    if keras.backend.backend() != "tensorflow":
        raise ValueError(
            "playground: Keras' backend must be TensorFlow, which reads strings. Received: "
            f"{keras.backend.backend()!r}. Start it with KERAS_BACKEND=tensorflow."
        )
    paths = list(dict.fromkeys(map(str, sources)))
    if not paths:
        raise ValueError("playground: expected at least one model, such as saved_models/kbert-tiny. Received: none")
    names = list(map(_name, paths))
    return {n if names.count(n) == 1 else path: Model(path) for n, path in zip(names, paths, strict=True)}


def _name(path):
    parts = [part for part in pathlib.PurePath(path).parts if part != "model" and not part.isdecimal()]
    return parts[-1] if parts else path
