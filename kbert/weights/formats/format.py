"""What a format of checkpoints has to offer; there is one folder for each, and one line in the registry."""

import pathlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a recipe asks for the names of the formats before it imports Keras
    from kbert.weights.formats.checkpoint import Checkpoint


class Format(ABC):
    """One way to keep a BERT in files: recognised, read and written.

    A new one is a folder with a module that has an instance of a subclass named `FORMAT`, and a line in
    `kbert.weights.formats.registry` (or a call of its `register_format`). `TensorCheckpoint`, `NameTable` and
    `ConfigNames` do most of the work for formats that keep named tensors beside a config.

    Attributes:
        name: as in ``save_pretrained(format=...)``.
        title: what it is and by which files it is known, for the message that nothing was recognised.
        files: patterns of the names of what `write` leaves; nothing else in a directory is ever replaced.
        needs_tokenizer: whether it cannot be written without a vocabulary.
        options: what `write` takes beside what every format takes, such as ``optimizer`` of Google's.

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
        """Whether a directory, a file in it or the prefix of files is a checkpoint of this format, by its content.

        It may be damaged: `read` says so then.
        """

    @abstractmethod
    def read(self, path: pathlib.Path, vocabulary=None) -> "Checkpoint":
        """Reads and checks all but the values; nothing is built before that.

        Args:
            path: that `recognises` has found to be of this format.
            vocabulary: path of a vocabulary in place of the checkpoint's own, or None.

        Raises:
            FileNotFoundError: a file is missing.
            ValueError: damaged files, or something that kbert cannot represent, with the reason.
        """

    @abstractmethod
    def write(self, directory: pathlib.Path, model, settings, vocabulary, *, made_by=None, **options) -> None:
        """Writes a model into an empty directory, which the caller puts in its place when all is written.

        Args:
            directory: exists already.
            model: one of kbert's models.
            settings: `ModelSettings`; what the format has no place for goes into a file beside it.
            vocabulary: the tokens, or None.
            made_by: what made the model, for a format that keeps it.
            **options: those of `options` that were given.

        Raises:
            ValueError: what the format cannot hold, with the reason.
        """

    def reference_outputs(self, model, path: pathlib.Path, batch) -> tuple[str, dict[str, Any]] | None:
        """What the format's own library computes from the files at `path`, to compare kbert's model with.

        Returns:
            Name and version of the library, and its outputs under kbert's names (``hidden_states``, a list, and those
            of the heads); None: there is no such library.

        Raises:
            ImportError: the library is not installed.
        """
        return None
