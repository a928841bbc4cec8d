"""A directory that appears whole or not at all."""

import fnmatch
import os
import pathlib
import shutil
import uuid
from collections.abc import Callable


def check_place(path, own_files: tuple[str, ...], overwrite: bool) -> None:
    """Raises FileExistsError if there is something at `path` that may not be replaced; call it before long work.

    Args:
        path: where a directory is to be written.
        own_files: patterns of the names that such a directory holds; nothing else is ever deleted.
        overwrite: whether such a directory may be replaced.
    """
    path = pathlib.Path(path)
    if not path.exists():
        return
    if not path.is_dir():
        raise FileExistsError(f"Expected a directory to save to. Received: {path}, which is a file")
    present = sorted(entry.name for entry in path.iterdir())
    others = [name for name in present if not any(fnmatch.fnmatchcase(name, pattern) for pattern in own_files)]
    if others:
        raise FileExistsError(f"{path} holds other things than a saved model; save to a new place. Found: {others[:8]}")
    if present and not overwrite:
        raise FileExistsError(f"{path} already holds a saved model. Pass overwrite=True to replace it.")


def write_whole(path, write: Callable[[pathlib.Path], None]) -> None:
    """Lets `write` fill a directory of another name beside `path`, then renames it; what was at `path` is replaced.

    If `write` fails, nothing is left of it and `path` is as it was.
    """
    path = pathlib.Path(path).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex[:8]}.tmp"
    temporary.mkdir()
    try:
        write(temporary)
        if not path.exists():
            os.rename(temporary, path)
            return
        old = temporary.with_name(temporary.name + ".old")
        os.rename(path, old)
        os.rename(temporary, path)
        shutil.rmtree(old)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
