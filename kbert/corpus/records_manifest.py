"""The manifest of a records directory. It ends with the SHA-256 of the rest, so a reader can rely on all of it."""

import hashlib
import json
import os
import pathlib
from typing import Any

from kbert.files import read_json

FORMAT = "kbert records 2"
MANIFEST = "manifest.json"
UNFINISHED = "unfinished.json"
VOCABULARY = "vocab.txt"
KINDS = {False: "train", True: "held-out"}  # by `held_out` of a shard
_ADVICE = "Prepare the records again."


def read_manifest(directory: str | os.PathLike) -> dict:
    """The manifest of finished records, as it was written."""
    directory = pathlib.Path(directory)
    path = directory / MANIFEST
    if not directory.is_dir():
        raise ValueError(f"There are no records: {os.fspath(directory)} is not a directory. See kbert records.")
    if (directory / UNFINISHED).is_file():
        raise ValueError(f"{directory} is unfinished. Run the same `kbert records` command again; it resumes.")
    try:
        manifest = read_json(path)
    except FileNotFoundError:
        raise ValueError(f"{directory} holds no records: {MANIFEST} is missing. See kbert records.") from None
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}. {_ADVICE}") from None
    if manifest.get("format") != FORMAT:
        raise ValueError(f"{path}: expected the format {FORMAT!r}. Received: {manifest.get('format')!r}. {_ADVICE}")
    check_signature(manifest, path, _ADVICE)
    return manifest


def signed(content: dict) -> dict:
    """The content with the SHA-256 of its JSON, for `check_signature`."""
    return {**content, "sha256": _json_hash(content)}


def check_signature(content: dict, path: str | os.PathLike, advice: str) -> None:
    """Raises ValueError, with the advice, unless the content is what was `signed`."""
    if content.get("sha256") != _json_hash({name: value for name, value in content.items() if name != "sha256"}):
        raise ValueError(f"{path} is damaged or was edited: its SHA-256 is not the one it ends with. {advice}")


def _json_hash(content):
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def token_type(vocabulary_size: int) -> str:
    """The type that token ids are stored in: two bytes where the vocabulary allows it."""
    return "uint16" if vocabulary_size <= 1 << 16 else "int32"


def is_records(path: Any) -> bool:
    """Whether something is the path of a directory made by `write_records`, finished or not."""
    if not isinstance(path, str | os.PathLike):
        return False
    path = pathlib.Path(path)
    return os.path.isdir(path) and any((path / name).is_file() for name in (MANIFEST, UNFINISHED))
