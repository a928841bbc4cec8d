"""The interface of a checkpoint format; each has one folder, and one line in the registry.

Shapes: B batch, S sequence.
"""

import pathlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a recipe asks for the formats before it imports Keras
    from kbert.weights.formats.checkpoint import Checkpoint


class Format(ABC):
    """A file format for BERT models: recognises, reads and writes them.

    A new format is a folder with a module whose `FORMAT` is an instance of a subclass, and a line in
    `kbert.weights.formats.registry` (or a call of its `register_format`). `TensorCheckpoint`, `NameTable` and
    `ConfigNames` do most of the work for formats that store named tensors beside a config.

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
    def read(self, path: pathlib.Path, vocabulary=None) -> "Checkpoint":
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
    def write(self, directory: pathlib.Path, model, settings, vocabulary, *, made_by=None, **options) -> None:
        """Writes a model into an empty directory, which the caller renames when it is complete.

        Args:
            directory: an existing directory.
            model: one of kbert's models.
            settings: `ModelSettings`. What the format cannot store goes into a file beside it.
            vocabulary: the tokens, or None.
            made_by: the settings that made the model, for a format that stores them.
            **options: arguments that `options` names, if they were given.

        Raises:
            ValueError: what the format cannot hold, with the reason.
        """

    def reference_outputs(self, model, path: pathlib.Path, batch) -> tuple[str, dict[str, Any]] | None:
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
