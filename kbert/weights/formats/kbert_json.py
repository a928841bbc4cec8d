"""kbert.json: hashes and provenance of a model directory, which hold only until its weights change."""

import datetime
import pathlib
import platform
from collections.abc import Mapping
from typing import Any

from kbert.aliases import PathLike
from kbert.files import read_json, sha256, write_json
from kbert.versions import versions

KBERT_JSON = "kbert.json"
_CHECKED = ("model.safetensors", "vocab.txt")  # config.json may be edited


def write_kbert_json(directory: pathlib.Path, parameters: int, made_by: Mapping[str, Any] | None) -> None:
    """Writes kbert.json with the hash of every file in the directory, so call it last."""
    files = sorted(file for file in directory.rglob("*") if file.is_file())
    content = {
        "versions": {"python": platform.python_version(), **versions()},
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "parameters": parameters,
        "sha256": {file.relative_to(directory).as_posix(): sha256(file) for file in files},
        "made_by": made_by or {},
    }
    write_json(directory / KBERT_JSON, content)


def read_kbert_json(directory: PathLike) -> dict[str, Any]:
    """The content of kbert.json, or {} if the directory has none."""
    path = pathlib.Path(directory) / KBERT_JSON
    if not path.is_file():
        return {}
    content = read_json(path)
    for name in ("sha256", "made_by"):
        if not isinstance(content.get(name), dict):
            raise ValueError(f"{path} is damaged: it lacks `{name}`. Delete it to load the model all the same.")
    return content


def check_hashes(directory: pathlib.Path) -> None:
    """Raises ValueError unless kbert.json lists the weights and the vocabulary with their present hashes."""
    for name, expected in read_kbert_json(directory).get("sha256", {}).items():
        path = directory / name
        if name in _CHECKED and (not path.is_file() or sha256(path) != expected):
            problem = "has another SHA-256 than" if path.is_file() else "is missing, but listed in"
            raise ValueError(
                f"{path} {problem} {KBERT_JSON}: it was damaged or replaced after kbert saved it. Copy the directory "
                f"again, or delete {KBERT_JSON} to load the files all the same."
            )
