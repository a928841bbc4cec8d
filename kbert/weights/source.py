"""Where a model lies: a path, a checkpoint of a run, a name on the Hugging Face hub; and what is opened there.

The hub needs huggingface_hub and a network.
"""

import pathlib
import re
from typing import TYPE_CHECKING, Any

from kbert.aliases import PathLike
from kbert.checks import check_path
from kbert.files import read_json, similar_names
from kbert.weights.formats.registry import FORMATS, get_format, recognize_format
from kbert.weights.step_paths import MODEL, find_step_checkpoint, is_step_checkpoint

if TYPE_CHECKING:
    from kbert.weights.formats.checkpoint import Checkpoint

_CONFIGS = ("config.json", "bert_config.json")
# File extensions of checkpoints: a name that ends like this is not a repository.
_FILE_ENDINGS = (".ckpt", ".index", ".meta", ".safetensors", ".bin", ".h5", ".keras", ".json", ".txt")
# A name, perhaps with its owner and a revision. A number after @ is the step of a run.
_NAME = re.compile(r"(?P<name>(?P<first>[A-Za-z0-9][\w.-]*)(?:/[A-Za-z0-9][\w.-]*)?)(?:@(?!\d+$)\w[\w.-]*)?")
_WEIGHTS = (r"model.*\.safetensors", r"pytorch_model.*\.bin", r".*\.ckpt.*")  # the first kind found
_OTHERS = r"[^/]+\.json|vocab\.txt|1_Pooling/config\.json"


def check_source(what: str, source: Any, *others: str) -> None:
    """Raises TypeError unless a source is a path or a name, ValueError if it is empty.

    `what` is the function and its argument, for the message. `others` is what else the function takes.
    """
    expected = " or ".join(("the path of a model", "its name on the Hugging Face hub", *others))
    if hasattr(source, "pipeline"):  # as a run has
        raise TypeError(f"{what} must be {expected}. Received: {type(source).__name__}; give its `pipeline`")
    check_path(source, what, expected)


def local_source(source: PathLike) -> pathlib.Path | None:
    """The path that a source means, or None if it can only be a name on the Hugging Face hub. Nothing is read.

    Args:
        source: a directory or file of any format that kbert reads, or the prefix of a TensorFlow checkpoint. The output
            of a run means the ``model`` in it, or the last checkpoint of an unfinished run, and ``RUN@STEP`` the
            checkpoint of a step. Or a name on the hub, such as ``google-bert/bert-base-uncased``, where ``@`` and a
            branch, tag or commit may follow.

    Returns:
        pathlib.Path or None.

    Raises:
        TypeError: neither a path nor a name.
        ValueError: an empty string.
        FileNotFoundError: something that looks like a path, but does not exist, or a run without such a checkpoint.

    Example::

        local_source("runs/tiny@20000")  # Path("runs/tiny/checkpoints/step-0000020000")
        local_source("google-bert/bert-base-uncased")  # None
    """
    check_source("`source`", source)
    if (checkpoint := find_step_checkpoint(source)) is not None:
        return checkpoint
    path = pathlib.Path(source)
    if path.is_dir() and not _has_model(path) and _has_model(path / MODEL):
        return path / MODEL
    if path.exists() or recognize_format(path) is not None:  # a prefix of files is not itself a file
        return path
    if is_hub_name(source):
        return None
    raise FileNotFoundError(
        f"Expected the path of a model. Received: {str(source)!r}, which does not exist{similar_names(path)}. "
        "A name on the Hugging Face hub is `name` or `owner/name`, and never begins with the name of a directory here"
    )


def open_checkpoint(
    source: PathLike,
    vocabulary: PathLike | None = None,
    *,
    revision: str | None = None,
    token: str | None = None,
) -> "Checkpoint":
    """Reads a model's description, settings and vocabulary, and opens its weights; builds nothing.

    Args:
        source: a model directory of kbert or Hugging Face, a file in one, or a run's output with one in ``model/``.
            The directory or prefix of Google's checkpoint. A checkpoint of a run (see `kbert.weights.local_source`).
            Or a name on the Hugging Face hub.
        vocabulary: path of a vocabulary for a checkpoint that has none, or the wrong one.
        revision: branch, tag or commit of a name on the hub, where `source` does not have it.
        token: access token for private repositories on the hub.

    Returns:
        The checkpoint: ``description, settings, vocabulary``, and ``load_into(model)``. `kbert.load_pretrained` takes
        it as a source.

    Raises:
        TypeError: `source` is neither a path nor a name.
        FileNotFoundError: no such path, and no such name on the hub; no network; or missing files.
        ValueError: a format that kbert does not recognise, damaged files, `revision` or `token` with a path, or two
            revisions.

    Example::

        checkpoint = kbert.weights.open_checkpoint("runs/pretrain")
        checkpoint.description.config.num_layers  # 12
    """
    from kbert.weights.step_checkpoint import open_step_checkpoint  # not above: it loads Keras

    path = local_source(source)
    if path is None:
        path = download_from_hub(source, revision, token)
    elif revision is not None or token is not None:
        raise ValueError(f"Expected `revision` and `token` for a name on the hub only. Received: the path {path}")
    if is_step_checkpoint(path):
        if vocabulary is not None:
            raise ValueError("A training run has a vocabulary of its own: `vocabulary` cannot replace it.")
        return _read(open_step_checkpoint, path)
    if (form := recognize_format(path)) is not None:
        return _read(form.read, path, vocabulary)
    titles = [get_format(name).TITLE for name in FORMATS]
    raise ValueError(
        f"Expected {', '.join(titles[:-1])} or {titles[-1]}; or a run's output with one in model/. "
        f"Received: {str(source)!r}, {_what_is_there(path)}"
    )


def _has_model(path):
    return any((path / name).is_file() for name in _CONFIGS) or any(path.glob("*.ckpt*.index"))


def _read(read, path, *arguments):
    """What a reader returns. Its ValueErrors name the file; errors of other classes get the directory's name."""
    try:
        return read(path, *arguments)
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"{path} holds something that kbert does not expect: {error}") from error


def is_preset(path: PathLike) -> bool:
    """Whether a path is a preset of KerasHub, of whatever model, by its config."""
    config = pathlib.Path(path) / "config.json"
    try:
        name = str(read_json(config).get("registered_name")) if config.is_file() else ""
    except ValueError:
        return False
    return name.startswith(("keras_hub>", "keras_nlp>"))


def _what_is_there(path):
    if is_preset(path):
        return "which is a KerasHub preset: kbert.weights.from_keras_hub opens it, and kbert convert"
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


# The Hugging Face hub.


def is_hub_name(source: PathLike) -> bool:
    """Whether a source that is not an existing path is treated as a repository on the hub.

    That is ``name`` or ``owner/name``, perhaps with ``@revision``. It is not one if it could be a mistyped path: its
    first part exists here, or it ends like a file of weights.
    """
    parts = _NAME.fullmatch(source) if isinstance(source, str) else None
    return bool(parts) and not parts["name"].endswith(_FILE_ENDINGS) and not pathlib.Path(parts["first"]).exists()


def split_revision(source: str) -> tuple[str, str | None]:
    """Divides ``name@revision``; without ``@revision`` that is None."""
    name, _, revision = source.partition("@")
    return name, revision or None


def download_from_hub(name: str, revision: str | None = None, token: str | None = None) -> pathlib.Path:
    """Downloads a repository's config, tokenizer and weights (in one of several formats), or finds them in the cache.

    `name` may have the form ``owner/name@revision``. A `token` of None means HF_TOKEN, or the one that ``hf auth
    login`` stored.
    """
    source, (name, own) = name, split_revision(name)
    if own is not None and revision is not None:
        raise ValueError(f"Expected one revision. Received: {source!r} and revision={revision!r}")
    revision = revision or own
    try:
        import huggingface_hub
    except ImportError:
        raise FileNotFoundError(
            f"{source!r} does not exist here as a path. If it is meant as a name on the Hugging Face hub: that needs "
            f"huggingface_hub (pip install huggingface_hub). {_by_hand(name)}"
        ) from None
    access = {"revision": revision, "token": token}
    try:
        # Once, as without a network the library itself would try six times, for half a minute.
        huggingface_hub.get_session().head(huggingface_hub.constants.ENDPOINT, timeout=5)
        files = huggingface_hub.list_repo_files(name, **access)
        weights = [kind for kind in _WEIGHTS if any(re.fullmatch(kind, file) for file in files)][:1]
        wanted = [file for file in files if any(re.fullmatch(pattern, file) for pattern in (_OTHERS, *weights))]
        return pathlib.Path(huggingface_hub.snapshot_download(name, allow_patterns=wanted, **access))
    except Exception as error:  # without a network, the exception depends on the versions of three libraries
        try:
            return pathlib.Path(huggingface_hub.snapshot_download(name, local_files_only=True, **access))
        except Exception:
            reason = str(error).splitlines()[0] if str(error) else ""
            raise FileNotFoundError(
                f"{source!r} does not exist here as a path, and could not be downloaded from the Hugging Face hub "
                f"({type(error).__name__}: {reason}). {_by_hand(name)}"
            ) from error


def snapshot_commit(directory: PathLike) -> str | None:
    """The commit that a directory of `download_from_hub` holds, by the layout of the cache, or None."""
    directory = pathlib.Path(directory)
    return directory.name if directory.parent.name == "snapshots" else None


def _by_hand(name):
    return (
        f"Without a network: on a machine that has one, get config.json, model.safetensors, vocab.txt and "
        f"tokenizer_config.json of huggingface.co/{name}, put them into a directory, and pass its path."
    )
