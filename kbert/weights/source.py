"""Resolves the source of a model: a path, a name on the hub, a checkpoint of a training run."""

import os
import pathlib
import re
from typing import Any

from kbert.files import similar_names
from kbert.weights.formats.registry import recognize_format
from kbert.weights.hub import download_from_hub, is_hub_name, is_own_model, split_revision

CHECKPOINTS = "checkpoints"  # where a training run keeps them
DESCRIPTION = "description"  # beside them: of the model that they hold
_CONFIGS = ("config.json", "bert_config.json")
_STEP = re.compile(r"step-(\d{10})")
_RUN_AT_STEP = re.compile(r"(.+)@(\d{1,10})")


def check_source(what: str, source: Any, *others: str) -> None:
    """Raises TypeError unless a source is a path or a name.

    `what` is the function and its argument, for the message. `others` is what else the function takes, a pipeline last.
    """
    if not isinstance(source, str | os.PathLike):
        expected = " or ".join(("the path of a model", "its name on the Hugging Face hub", *others))
        hint = ""
        if others and hasattr(source, "pipeline"):  # a run has a pipeline
            hint = "; give its `pipeline`"
        elif others and hasattr(source, "encoder"):
            hint = "; kbert.build_pipeline makes a pipeline of a model"
        raise TypeError(f"{what} must be {expected}. Received: {type(source).__name__}{hint}")


def local_source(source: str | os.PathLike) -> pathlib.Path | None:
    """The path that a source means, or None if it can only be a name on the Hugging Face hub. Nothing is read.

    Args:
        source: a directory or file of any format that kbert reads, or the prefix of a TensorFlow checkpoint. The output
            of a recipe means the ``model`` in it, or the last checkpoint of an unfinished run, and ``RUN@STEP`` the
            checkpoint of a step. Or a name on the hub, such as ``google-bert/bert-base-uncased``, where ``@`` and a
            branch, tag or commit may follow.

    Returns:
        pathlib.Path or None.

    Raises:
        TypeError: neither a path nor a name.
        FileNotFoundError: something that looks like a path, but does not exist, or a run without such a checkpoint.

    Example::

        local_source("runs/tiny@20000")  # Path("runs/tiny/checkpoints/step-0000020000")
        local_source("google-bert/bert-base-uncased")  # None
    """
    check_source("`source`", source)
    if (checkpoint := find_step_checkpoint(source)) is not None:
        return checkpoint
    path = pathlib.Path(source)
    if path.is_dir() and not _has_model(path) and _has_model(path / "model"):
        return path / "model"
    if path.exists() or recognize_format(path) is not None:  # a prefix of files is not itself a file
        return path
    check_links(path)
    if is_hub_name(source):
        return None
    raise FileNotFoundError(
        f"Expected the path of a model. Received: {str(source)!r}, which does not exist"
        f"{similar_names(path) or _why_no_hub(source)}"
    )


def resolve_source(source: str | os.PathLike, revision: str | None = None, token: str | None = None) -> pathlib.Path:
    """The path of a source on this machine; a name on the hub is downloaded, or found in the cache.

    Args:
        source: see `local_source`.
        revision: branch, tag or commit of a name on the hub, where `source` does not have it.
        token: access token for private repositories on the hub.

    Returns:
        pathlib.Path.

    Raises:
        TypeError: neither a path nor a name.
        FileNotFoundError: something that looks like a path, but does not exist; no such name on the hub; no network.
        ValueError: `revision` or `token` with a path, or two revisions.

    Example::

        resolve_source("google-bert/bert-base-uncased", revision="main")
    """
    path = local_source(source)
    if path is None:
        return download_from_hub(str(source), revision, token)
    if revision is not None or token is not None:
        raise ValueError(f"Expected `revision` and `token` for a name on the hub only. Received: the path {path}")
    return path


def check_links(path: pathlib.Path) -> None:
    """Raises FileNotFoundError if a path, or a file in a directory, is a symbolic link to nothing.

    A file of a hub's cache is a link to a blob, which is missing after an interrupted download or where only the
    snapshot was copied. It would look like a model without a config, weights or a vocabulary.
    """
    for file in (path, *sorted(path.iterdir())) if path.is_dir() else (path,):
        if file.is_symlink() and not file.exists() and not file.name.startswith("."):
            raise FileNotFoundError(
                f"{file} is a symbolic link to {os.readlink(file)}, which does not exist. Download or copy the model "
                "again, with the files that its links lead to"
            )


def _has_model(path):
    return any((path / name).is_file() for name in _CONFIGS) or any(path.glob("*.ckpt*.index"))


def _why_no_hub(source):
    """Why a name is treated as a path, not as one on the hub."""
    if (parts := split_revision(str(source)))[1] and parts[1].isdecimal() and is_hub_name(parts[0]):
        return ". (A number after @ is the step of a run, whose directory precedes it.)"
    owner, slash, name = str(source).partition("/")
    if is_own_model(str(source)) and not pathlib.Path(owner).is_dir():
        return ". kbert's own models are in the folder saved_models of its repository: give the path of that."
    if not slash or "/" in name or not name or not pathlib.Path(owner).is_dir() or owner in (".", "..", "~"):
        return ""
    return f". (Names on the hub are not looked up where there is a directory {owner} here.)"


# Checkpoints of a training run.


def checkpoint_paths(directory: str | os.PathLike) -> list[pathlib.Path]:
    """The checkpoints in a directory, oldest first; none if there is no directory."""
    return sorted(path for path in pathlib.Path(directory).glob("step-*") if _STEP.fullmatch(path.name))


def checkpoint_name(step: int) -> str:
    return f"step-{step:010d}"


def checkpoint_step(path: str | os.PathLike) -> int:
    return int(pathlib.Path(path).name.removeprefix("step-"))


def is_step_checkpoint(path: str | os.PathLike) -> bool:
    """Whether a path is a checkpoint of a run, not a model."""
    path = pathlib.Path(path)
    return _STEP.fullmatch(path.name) is not None and path.is_dir()


def find_step_checkpoint(source: str | os.PathLike) -> pathlib.Path | None:
    """The checkpoint that a source means: of RUN@STEP, or the last of an unfinished RUN; None: another source.

    A run without checkpoints, or without one of this step, is a FileNotFoundError that names the ones it has.
    """
    path = pathlib.Path(source)
    if path.is_dir():
        # A run that is being extended still has the model of its first end.
        unfinished = (path / "settings.json").is_file() and not (path / "metrics.json").exists()
        if (path / "model").exists() and not (path / CHECKPOINTS / DESCRIPTION).is_dir():
            unfinished = False  # a recipe's, which has its model when it is trained
        saved = checkpoint_paths(path / CHECKPOINTS)
        if unfinished and not saved and (path / CHECKPOINTS).is_dir() and not (path / "model").exists():
            raise FileNotFoundError(f"Expected a model. Received: {path}, an unfinished run without a checkpoint")
        return saved[-1] if unfinished and saved else None
    at_step = _RUN_AT_STEP.fullmatch(str(source))
    if path.exists() or at_step is None or not pathlib.Path(at_step[1]).is_dir():
        return None
    directory = pathlib.Path(at_step[1]) / CHECKPOINTS
    checkpoint = directory / checkpoint_name(int(at_step[2]))
    if not checkpoint.is_dir():
        steps = ", ".join(str(checkpoint_step(path)) for path in checkpoint_paths(directory)) or "none"
        raise FileNotFoundError(
            f"{at_step[1]} has no checkpoint of step {at_step[2]}. It has: {steps} (--keep-every N keeps every Nth "
            "step)"
        )
    return checkpoint
