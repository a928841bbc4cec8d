"""A stored model of any format, found by its path or name, recognised by its content, and checked."""

import difflib
import os
import pathlib

from kbert.weights.formats.checkpoint import Checkpoint
from kbert.weights.formats.registry import format_names, get_format, recognise_format
from kbert.weights.hub import download_from_hub, is_hub_name


def open_checkpoint(source: str | os.PathLike, vocabulary=None) -> Checkpoint:
    """Reads a model's description, settings and vocabulary, and opens its weights; builds nothing.

    Args:
        source: what any registered format recognises: a kbert directory, or a recipe's output with one in ``model/``; a
            directory of Google's, Hugging Face's or KerasHub's format; a file in one of these; or a name on the
            Hugging Face hub.
        vocabulary: path of a vocabulary for a checkpoint that has none, or the wrong one.

    Raises:
        FileNotFoundError: nothing there, and no such name on the hub; or files are missing.
        ValueError: nothing that kbert recognises; damaged files.

    Example::

        open_checkpoint("google-bert/bert-base-uncased").description.config.num_layers  # 12
    """
    path = pathlib.Path(source)
    if not path.exists() and recognise_format(path) is None:  # a prefix of files is none itself
        if not is_hub_name(source):
            raise FileNotFoundError(
                f"Expected the path of a model. Received: {str(source)!r}, which does not exist"
                f"{_near(path) or _why_no_hub(source)}"
            )
        path = download_from_hub(source)
    for candidate in (path, path / "model"):
        form = recognise_format(candidate)
        if form is not None:
            return _read(form.read, candidate, vocabulary)
    titles = [get_format(name).title for name in format_names()]
    raise ValueError(
        f"Expected {', '.join(titles[:-1])} or {titles[-1]}; or a recipe's output with one in model/. "
        f"Received: {str(source)!r}, {_what_is_there(path)}"
    )


def _read(read, path, *arguments):
    """What a reader gives; its errors name at least the directory."""
    try:
        return read(path, *arguments)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        if isinstance(error, ValueError) and str(path) in str(error):
            raise
        raise ValueError(f"{path} holds something that kbert does not expect: {error}") from error


def _near(path):
    """What there is where the path leaves what exists: the names most like the missing one."""
    while not path.parent.exists():
        path = path.parent
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, sorted(names)[:1000], n=3, cutoff=0.5)
    return f". In {path.parent} there is: {', '.join(near)}" if near else ""


def _why_no_hub(source):
    """Why a name that could be the hub's is taken for a path."""
    owner, slash, name = str(source).partition("/")
    if not slash or "/" in name or not name or not pathlib.Path(owner).is_dir() or owner in (".", "..", "~"):
        return ""
    return f". (Names on the hub are not looked up where there is a directory {owner} here.)"


def _what_is_there(path):
    if path.suffix in (".keras", ".h5"):
        return "which keras.models.load_model or model.load_weights reads"
    if path.is_file():
        return "which is none of their files, or lies without the config that belongs to it"
    return f"which holds {sorted(entry.name for entry in path.iterdir())[:8] or 'nothing'}"
