"""Downloads checkpoints from the Hugging Face hub and uploads them; needs huggingface_hub and a network."""

import pathlib
import re

from kbert.options import PathLike

# File extensions of checkpoints: a name that ends like this is not a repository.
_FILE_ENDINGS = (".ckpt", ".index", ".meta", ".safetensors", ".bin", ".h5", ".keras", ".json", ".txt")
_NAME = re.compile(r"([A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?)(?:@(\w[\w.-]*))?")
_WEIGHTS = (r"model.*\.safetensors", r"pytorch_model.*\.bin", r".*\.weights\.h5", r".*\.ckpt.*")  # the first kind found
_OTHERS = r"[^/]+\.json|vocab\.txt|assets/tokenizer/[^/]+|1_Pooling/config\.json"


def is_hub_name(source: PathLike) -> bool:
    """Whether a source that is not an existing path is treated as a repository on the hub.

    That is ``name`` or ``owner/name``, perhaps with ``@revision``. It is not one if it could be a mistyped path: it
    begins with ``.``, ``/`` or ``~``, has a backslash or more than one slash, ends like a file of weights, or its first
    part is a directory here. Nor if it is one of kbert's own models, or could be a mistyped checkpoint of a run: a
    number follows ``@``, or what precedes it is here.
    """
    parts = _NAME.fullmatch(source) if isinstance(source, str) else None
    if parts is None or source.endswith(_FILE_ENDINGS) or parts[1].endswith(_FILE_ENDINGS):
        return False
    if parts[2] is not None and (parts[2].isdecimal() or pathlib.Path(parts[1]).exists()):
        return False
    owner, slash, _ = source.partition("/")
    return not (slash and pathlib.Path(owner).is_dir()) and not is_own_model(source)


def is_own_model(source: str) -> bool:
    """Whether a name is a model's in kbert's repository, which is not on the hub even where its folder is not."""
    return source.startswith("saved_models/kbert-")


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


def check_hub_target(name: str) -> None:
    """Raises an error, before anything is written, if a directory cannot be uploaded under this name."""
    parts = _NAME.fullmatch(name) if isinstance(name, str) else None
    if parts is None or "/" not in name or parts[2] is not None:
        raise ValueError(
            "save_pretrained: `push_to_hub` must be the name of a repository on the Hugging Face hub, as 'owner/name'. "
            f"Received: {name!r}"
        )
    try:
        import huggingface_hub  # noqa: F401
    except ImportError as error:
        message = "save_pretrained: `push_to_hub` needs huggingface_hub: pip install huggingface_hub"
        raise ImportError(message, name="huggingface_hub") from error


def upload_to_hub(directory: PathLike, name: str) -> None:
    """Uploads a directory as one commit; a new repository is private."""
    import huggingface_hub

    try:
        huggingface_hub.create_repo(name, private=True, exist_ok=True)
        huggingface_hub.upload_folder(repo_id=name, folder_path=str(directory), commit_message="Upload of kbert")
    except Exception as error:  # without a network, the exception depends on the versions of three libraries
        reason = (str(error) or repr(error)).splitlines()[0]
        raise OSError(
            f"save_pretrained: {directory} was written, but not uploaded to {name!r} "
            f"({type(error).__name__}: {reason}). "
            f"Log in (hf auth login), then: hf upload {name} {directory}"
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
