"""Whatever lies at a path or bears a name, recognised by its content and read, but for the weights' values."""

import difflib
import os
import pathlib

from kbert.weights.formats.checkpoint import Checkpoint
from kbert.weights.formats.google.read import is_google_checkpoint, read_google_checkpoint
from kbert.weights.formats.huggingface.read import is_huggingface_directory, read_huggingface_directory
from kbert.weights.formats.kbert.directory import KbertDirectory, is_kbert_directory, read_kbert_directory
from kbert.weights.formats.kerashub.read import is_kerashub_preset, read_kerashub_preset
from kbert.weights.hub import download_from_hub, is_hub_name

_READERS = (  # recognises the content of a path; reads it
    (is_kerashub_preset, read_kerashub_preset),
    (is_huggingface_directory, read_huggingface_directory),
    (is_google_checkpoint, read_google_checkpoint),
)


def read_source(source: str | os.PathLike, vocabulary=None) -> KbertDirectory | Checkpoint:
    """Reads a model's description, settings and vocabulary, and opens its weights.

    Args:
        source: a kbert directory, or a recipe's output with one in ``model/``; a directory of Google's, Hugging Face's
            or KerasHub's format; a file in one of these; a name on the Hugging Face hub.
        vocabulary: path of a vocabulary for a checkpoint that has none, or the wrong one.

    Raises:
        FileNotFoundError: nothing there, and no such name on the hub; or files are missing.
        ValueError: nothing that kbert recognises; damaged files.
    """
    path = pathlib.Path(source)
    if not path.exists() and not _is_prefix(path):
        if not is_hub_name(source):
            raise FileNotFoundError(
                f"Expected the path of a model. Received: {str(source)!r}, which does not exist"
                f"{_near(path) or _why_no_hub(source)}"
            )
        path = download_from_hub(source)
    for candidate in (path.parent,) if _is_part(path) else (path, path / "model"):
        if is_kbert_directory(candidate):
            if vocabulary is not None:
                raise ValueError("A kbert directory has a vocabulary of its own: `vocabulary` cannot replace it.")
            return _read(read_kbert_directory, candidate)
        for recognises, read in _READERS:
            if recognises(candidate):
                return _read(read, candidate, vocabulary)
    raise ValueError(
        "Expected a kbert directory (config.json, vocab.txt, model.weights.h5, manifest.json), a recipe's output with "
        "one in model/, a Hugging Face directory (config.json, model.safetensors or pytorch_model.bin), Google's "
        "checkpoint (bert_config.json, bert_model.ckpt.index) or a KerasHub preset (config.json, model.weights.h5). "
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


def _is_part(path):
    """Whether it is a file of a kbert directory or of a KerasHub preset, which are read as a whole."""
    return path.is_file() and (is_kbert_directory(path.parent) or is_kerashub_preset(path.parent))


def _is_prefix(path):
    return path.with_name(path.name + ".index").is_file()


def _what_is_there(path):
    if path.suffix in (".keras", ".h5"):
        return "which keras.models.load_model or model.load_weights reads"
    if path.is_file():
        return "which is none of their files, or lies without the config that belongs to it"
    return f"which holds {sorted(entry.name for entry in path.iterdir())[:8] or 'nothing'}"
