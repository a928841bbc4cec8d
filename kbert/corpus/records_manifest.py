"""The manifest of a records directory: what it must hold, so that a reader can rely on every number in it.

It ends with the SHA-256 of the rest. Every field is checked too, since a changed file may come with a matching hash.
"""

import os
import pathlib
import re
from typing import Any

from kbert.files import check_signature, read_json

FORMAT = "kbert records 2"
MANIFEST = "manifest.json"
UNFINISHED = "unfinished.json"
VOCABULARY = "vocab.txt"
KINDS = {False: "train", True: "held-out"}  # by `held_out` of a shard
_ADVICE = "Prepare the records again."
_COUNTS = ("documents", "sentences", "tokens")
_MOST = 2**31 - 1  # of anything in a shard: its numbers are int32
_SHARD = {
    "name": str,
    "held_out": bool,
    "first_document": int,
    "documents": int,
    "sentences": int,
    "tokens": int,
    "tokens_sha256": str,
    "index_sha256": str,
}
_PARTS = {
    "format": str,
    "token_type": str,
    "vocabulary": dict,
    "tokenizer": dict,
    "settings": dict,
    "counts": dict,
    "versions": dict,
    "shards": list,
    "sha256": str,
}
_TOKENIZER = {
    "lowercase": bool,
    "strip_accents": bool | None,
    "split_on_cjk": bool,
    "max_word_length": int,
    "special_tokens_in_text": bool | list,
}


def read_manifest(directory: str | os.PathLike) -> dict:
    """The manifest of finished records, checked."""
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
    _check_fields(manifest, _PARTS, path, "the manifest")
    _check_fields(manifest["vocabulary"], {"size": int, "sha256": str}, path, "vocabulary")
    _check_fields(manifest["tokenizer"], _TOKENIZER, path, "tokenizer")
    _check_fields(manifest["counts"], dict.fromkeys(_COUNTS, int), path, "counts")
    if manifest["tokenizer"]["max_word_length"] < 1:
        _refuse(path, "tokenizer: max_word_length at least 1", manifest["tokenizer"]["max_word_length"])
    if manifest["token_type"] != token_type(manifest["vocabulary"]["size"]):
        _refuse(path, f"token_type {token_type(manifest['vocabulary']['size'])!r}", manifest["token_type"])
    check_shards(manifest["shards"], path)
    for name in _COUNTS:
        total = sum(shard[name] for shard in manifest["shards"])
        if manifest["counts"][name] != total:
            _refuse(path, f"counts: {total} {name}, the sum over its shards", manifest["counts"][name])
    if not any(not shard["held_out"] for shard in manifest["shards"]):
        _refuse(path, "at least one shard for training", "none")
    return manifest


def check_shards(shards: list, path: str | os.PathLike) -> None:
    """Raises ValueError unless the list describes shards as they are written: in order, numbered, each once."""
    documents, numbers = 0, dict.fromkeys(KINDS.values(), 0)
    for position, shard in enumerate(shards):
        where = f"shards[{position}]"
        if not isinstance(shard, dict):
            _refuse(path, f"{where}: an object", shard)
        _check_fields(shard, _SHARD, path, where)
        kind = KINDS[shard["held_out"]]
        name = f"{kind}-{numbers[kind]:05d}"  # allows no path outside of the directory, and no shard listed twice
        if shard["name"] != name:
            _refuse(path, f"{where}: the name {name!r}", shard["name"])
        if not 1 <= shard["documents"] <= shard["sentences"] <= shard["tokens"] <= _MOST:
            counts = {count: shard[count] for count in _COUNTS}
            _refuse(path, f"{where}: 1 <= documents <= sentences <= tokens < 2**31", counts)
        if shard["first_document"] != documents:
            _refuse(path, f"{where}: first_document {documents}", shard["first_document"])
        for hashed in ("tokens_sha256", "index_sha256"):
            if not re.fullmatch("[0-9a-f]{64}", shard[hashed]):
                _refuse(path, f"{where}: {hashed} of 64 hexadecimal digits", shard[hashed])
        documents += shard["documents"]
        numbers[kind] += 1


def token_type(vocabulary_size: int) -> str:
    """The type that token ids are stored in: two bytes where the vocabulary allows it."""
    return "uint16" if vocabulary_size <= 1 << 16 else "int32"


def _check_fields(values, kinds, path, where):
    if values.keys() != kinds.keys():
        _refuse(path, f"{where}: the fields {', '.join(sorted(kinds))}", ", ".join(sorted(values)) or "none")
    for name, kind in kinds.items():
        value = values[name]
        if not isinstance(value, kind) or (kind is int and (isinstance(value, bool) or value < 0)):
            named = "a whole number, 0 or more" if kind is int else getattr(kind, "__name__", str(kind))
            _refuse(path, f"{where}: {name}, {named}", value)


def _refuse(path, expected, received):
    raise ValueError(f"{path}: expected {expected}. Received: {str(received)[:80]!r}. {_ADVICE}")


def is_records(path: Any) -> bool:
    """Whether something is the path of a directory made by `write_records`, finished or not."""
    if not isinstance(path, str | os.PathLike):
        return False
    path = pathlib.Path(path)
    return os.path.isdir(path) and any((path / name).is_file() for name in (MANIFEST, UNFINISHED))
