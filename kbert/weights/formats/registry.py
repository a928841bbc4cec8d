"""What a format of checkpoints is, and which there are. A format's module is imported when it is first asked for.

Shapes: B batch, S sequence.
"""

import functools
import importlib
import pathlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbert.options import PathLike

if TYPE_CHECKING:  # a recipe asks for the formats before it imports Keras
    import numpy as np

    from kbert.models.bert_model import BertModel
    from kbert.pipelines.settings import ModelSettings
    from kbert.weights.formats.checkpoint import Checkpoint

_MODULES = {  # name → module whose `FORMAT` it is, in the order in which they are tried on a path
    "kbert": "kbert.weights.formats.kbert",
    "kerashub": "kbert.weights.formats.kerashub",
    "huggingface": "kbert.weights.formats.huggingface",  # before Google's, whose config is often copied along
    "google": "kbert.weights.formats.google",
}


class Format(ABC):
    """A file format for BERT models: recognises, reads and writes them.

    A new format is a module whose `FORMAT` is an instance of a subclass, and a line in `kbert.weights.formats.registry`
    (or a call of its `register_format`). `TensorCheckpoint`, `NameTable` and `ConfigNames` do most of the work for
    formats that store named tensors beside a config.

    Attributes:
        name: as in ``save_pretrained(format=...)``.
        title: a description with the files it is recognised by, for the message that nothing was recognised.
        files: patterns of the names of files that `write` creates. Nothing else in a directory is ever replaced.
        needs_tokenizer: whether writing needs a vocabulary.
        options: names of further arguments of `write`, such as ``optimizer`` of Google's.

    Example::

        class NumpyFormat(Format):
            name, title, files = "numpy", "a directory of arrays (bert.npz)", ("bert.npz", "config.json")
    """

    name: str
    title: str
    files: tuple[str, ...]
    needs_tokenizer: bool = False
    options: tuple[str, ...] = ()

    @abstractmethod
    def recognises(self, path: pathlib.Path) -> bool:
        """Whether a path is a checkpoint of this format, by its content.

        Args:
            path: a directory, a file in it, or the prefix of files. It may be damaged: `read` then says so.
        """

    @abstractmethod
    def read(self, path: pathlib.Path, vocabulary: PathLike | None = None) -> "Checkpoint":
        """Reads and checks everything but the values; builds nothing.

        Args:
            path: a path that `recognises` has accepted.
            vocabulary: path of a vocabulary in place of the checkpoint's own, or None.

        Returns:
            A `Checkpoint`, which loads the values when it is asked to.

        Raises:
            FileNotFoundError: a file is missing.
            ValueError: damaged files, or something that kbert cannot represent, with the reason.
        """

    @abstractmethod
    def write(
        self,
        directory: pathlib.Path,
        model: "BertModel",
        settings: "ModelSettings",
        vocabulary: list[str] | None,
        *,
        made_by: Mapping[str, Any] | None = None,
        **options,
    ) -> None:
        """Writes a model into an empty directory, which the caller renames when it is complete.

        Args:
            directory: an existing directory.
            model: one of kbert's models.
            settings: what the format cannot store goes into a file beside it.
            vocabulary: the tokens, or None.
            made_by: the settings that made the model, for a format that stores them.
            **options: arguments that `options` names, if they were given.

        Raises:
            ValueError: what the format cannot hold, with the reason.
        """

    def reference_outputs(
        self, model: "BertModel", path: pathlib.Path, batch: "Mapping[str, np.ndarray]"
    ) -> tuple[str, dict[str, Any]] | None:
        """What the format's own library computes from the files at `path`, for comparison with kbert's model.

        Args:
            model: a kbert model with the weights of these files.
            path: a path that `recognises` has accepted.
            batch: ``token_ids, segment_ids, padding_mask`` [B, S] and what the model takes besides, as NumPy arrays.

        Returns:
            Name and version of the library, and its outputs under kbert's names: ``hidden_states``, a list, and the
            outputs of the heads. None if there is no such library.

        Raises:
            ImportError: the library is not installed.
        """
        return None


def register_format(name: str, module: str) -> None:
    """Adds a format, which `load_pretrained`, `save_pretrained` and the recipes then know.

    Args:
        name: as in ``save_pretrained(format=name)``.
        module: name of a module that can be imported; its `FORMAT` is an instance of a `Format`.

    Raises:
        ValueError: the name is taken by another module.

    Example::

        register_format("numpy", "my_package.numpy_format")
    """
    if _MODULES.setdefault(name, module) != module:
        raise ValueError(f"Expected the name of a new format. Received: {name!r}, which is {_MODULES[name]}")


def format_names() -> tuple[str, ...]:
    return tuple(_MODULES)


def get_format(name: str) -> Format:
    if name not in _MODULES:
        raise ValueError(f"`format` must be one of {format_names()}. Received: {name!r}")
    return _imported(_MODULES[name])


def recognise_format(path: PathLike) -> Format | None:
    """The format of what is at a path (directory, file or prefix of files), by its content; None: unknown."""
    path = pathlib.Path(path)
    return next((form for form in map(get_format, _MODULES) if form.recognises(path)), None)


@functools.cache
def _imported(module):
    return importlib.import_module(module).FORMAT
