"""The formats of checkpoints. The module of one is imported when it is first asked for.

Each module has

- ``TITLE``: a description with the files it is recognized by, for the message that nothing was recognized;
- ``FILES``: patterns of the names of files that `write` creates. Nothing else in a directory is ever replaced;
- ``recognizes(path)``: whether a path (a directory, a file in it, or the prefix of files) is a checkpoint of this
  format. It may be damaged: `read` then says so;
- ``read(path, vocabulary)``: a `Checkpoint`, checked except for the values, which it loads when it is asked to;
  `vocabulary` is the path of one in place of its own, or None. Nothing is built;
- ``write(directory, model, settings, vocabulary)``: writes a model into an empty directory, which the caller renames
  when it is complete. ValueError for what the format cannot hold, with the reason.
"""

import importlib
import pathlib
import types

from kbert.aliases import PathLike

FORMATS = {  # name → module, in the order in which they are tried on a path
    "huggingface": "kbert.weights.formats.huggingface",  # before Google's, whose config is often copied along
    "google": "kbert.weights.formats.google",
}


def get_format(name: str) -> types.ModuleType:
    return importlib.import_module(FORMATS[name])


def recognize_format(path: PathLike) -> types.ModuleType | None:
    """The format of what is at a path (directory, file or prefix of files), by its content; None: unknown."""
    path = pathlib.Path(path)
    return next((form for form in map(get_format, FORMATS) if form.recognizes(path)), None)
