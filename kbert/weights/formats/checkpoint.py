"""A stored model of any format, read and checked except for the values of its weights."""

import dataclasses
import pathlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from kbert.pipelines.settings import ModelSettings
from kbert.weights.description import ModelDescription
from kbert.weights.report import LoadReport, all_loaded, transfer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint(ABC):
    """What `Format.read` returns.

    Attributes:
        description: the model that it holds.
        settings: labels, tokenizer settings and lengths, as far as the format has them.
        other_options: fields of task objects that the checkpoint states for other tasks than its own.
        vocabulary: the tokens, or None if the checkpoint has none.
    """

    format: str
    path: pathlib.Path
    description: ModelDescription
    settings: ModelSettings
    vocabulary: list[str] | None
    other_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @abstractmethod
    def load_into(self, model) -> LoadReport:
        """Loads the weights that both have into a model of this or another task; reports on each variable.

        Damaged values are a ValueError, and so is a missing variable of the encoder, except its pooler's.
        """

    def load_all_into(self, model, is_described: bool, load) -> LoadReport:
        """`load_into` for weights that only a model as described can read; others take them from such a model.

        `is_described` says whether `model` is one. `load` reads the weights into the model that it is given.
        """
        if is_described:
            load(model)
            return all_loaded(model, str(self.path))
        original = self.description.build()
        load(original)
        stored = {v.path: (tuple(v.shape), lambda v=v: v) for v in original.weights}
        return transfer(stored, model, str(self.path))
