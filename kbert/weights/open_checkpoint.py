"""A stored model of any format, found by its path or name, recognised by its content, and checked."""

import os

from kbert.weights.formats.checkpoint import Checkpoint
from kbert.weights.formats.registry import FORMATS, get_format, recognize_format
from kbert.weights.source import check_links, is_step_checkpoint, resolve_source
from kbert.weights.step_checkpoint import open_step_checkpoint


def open_checkpoint(
    source: str | os.PathLike,
    vocabulary: str | os.PathLike | None = None,
    *,
    revision: str | None = None,
    token: str | None = None,
) -> Checkpoint:
    """Reads a model's description, settings and vocabulary, and opens its weights; builds nothing.

    Args:
        source: what any registered format recognises: a kbert directory, or a recipe's output with one in ``model/``. A
            directory of Google's, Hugging Face's or KerasHub's format, or a file in one. A checkpoint of a run (see
            `kbert.weights.local_source`). Or a name on the Hugging Face hub.
        vocabulary: path of a vocabulary for a checkpoint that has none, or the wrong one.
        revision, token: for a name on the hub; see `kbert.weights.resolve_source`.

    Returns:
        The checkpoint: ``description, settings, vocabulary``, and ``load_into(model)``. `kbert.load_pretrained` takes
        it as a source.

    Raises:
        TypeError: `source` is neither a path nor a name.
        FileNotFoundError: no such path, and no such name on the hub; or missing files.
        ValueError: a format that kbert does not recognise, or damaged files.

    Example::

        checkpoint = kbert.weights.open_checkpoint("runs/pretrain")
        checkpoint.description.config.num_layers  # 12
    """
    path = resolve_source(source, revision, token)
    if is_step_checkpoint(path):
        if vocabulary is not None:
            raise ValueError("A training run has a vocabulary of its own: `vocabulary` cannot replace it.")
        return _read(open_step_checkpoint, path)
    for candidate in (path, path / "model"):
        check_links(candidate)
        form = recognize_format(candidate)
        if form is not None:
            return _read(form.read, candidate, vocabulary)
    titles = [get_format(name).TITLE for name in FORMATS]
    raise ValueError(
        f"Expected {', '.join(titles[:-1])} or {titles[-1]}; or a recipe's output with one in model/. "
        f"Received: {str(source)!r}, {_what_is_there(path)}"
    )


def _read(read, path, *arguments):
    """What a reader returns; its errors name at least the directory."""
    try:
        return read(path, *arguments)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        if isinstance(error, ValueError) and str(path) in str(error):
            raise
        raise ValueError(f"{path} holds something that kbert does not expect: {error}") from error


def _what_is_there(path):
    if path.suffix in (".keras", ".h5"):
        return "which keras.models.load_model or model.load_weights reads"
    if any((place / "saved_model.pb").is_file() for place in (path, *path.glob("*/"))):
        return (
            "which is an exported SavedModel: kbert predict --source and tf.saved_model.load read it; to train or "
            "export again, give the directory that it was exported from"
        )
    if path.is_file():
        return "which is none of their files, or has no config beside it"
    return f"which holds {sorted(entry.name for entry in path.iterdir())[:8] or 'nothing'}"
