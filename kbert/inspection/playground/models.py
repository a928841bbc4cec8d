"""The models of a playground: known by name, loaded when first used, shared by all who ask."""

import functools
import pathlib
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

import keras

from kbert.aliases import PathLike
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
        source: a path or name as `kbert.load_pretrained` takes it.

    Raises:
        OSError, ValueError: there is no such model, or it has no vocabulary. Weights are not read yet.
    """

    def __init__(self, source: PathLike) -> None:
        self.source = str(source)
        self._lock = threading.Lock()
        if open_checkpoint(source).vocabulary is None:
            raise ValueError(f"{source}: expected a model with a vocabulary. Received: one without")

    @functools.cached_property
    def _pipeline(self):
        return build_pipeline(load_pretrained(self.source, num_parts=None))  # for plain rows

    @property
    def pipeline(self) -> "Pipeline":
        """What answers strings."""
        with self._lock:
            return self._pipeline

    @property
    def model(self) -> "BertModel":
        return self.pipeline.model

    @property
    def tokenizer(self) -> "BertTokenizer":
        """The model's own. A pipeline that fills masks reads them in the text."""
        return self.model.pretrained.tokenizer


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
