"""JSON objects on disk."""

import json
import pathlib
from typing import Any


def read_json(path) -> dict[str, Any]:
    """The object in a file.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no JSON, or not an object; the message names the file.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"No file at {str(path)!r}.")
    try:
        content = json.loads(path.read_text("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is damaged: expected a JSON object. Received: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a JSON object. Received: {type(content).__name__}")
    return content


def write_json(path, content: dict[str, Any]) -> None:
    """Writes an object, two spaces a level."""
    pathlib.Path(path).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
