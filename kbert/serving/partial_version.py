"""Where a version is written until it is complete: in the model's directory, under a name that servers ignore."""

import contextlib
import fcntl
import os
import shutil
import uuid

from kbert.files import is_partial


@contextlib.contextmanager
def partial_version(directory):
    """An empty directory inside `directory`, in which a version is written; the writer renames it to its number.

    It is inside the model's directory, not beside it, because that may be the root of a mounted volume, out of which
    nothing can be renamed. Its name is not a number: TensorFlow Serving takes only numbers for versions
    (file_system_storage_path_source.cc). It is deleted at the end if it was not renamed, and `directory` too if it is
    new and empty. What a killed export left behind is deleted first; a running export holds a lock on its directory.

    Args:
        directory: pathlib.Path of the model's versions; created if it does not exist.
    """
    is_new = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(directory)
    partial, lock = _make_locked(directory)
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        os.close(lock)
        if is_new:
            with contextlib.suppress(OSError):  # it holds a version
                directory.rmdir()


def _make_locked(directory):
    while True:
        partial = directory / f".{uuid.uuid4().hex[:8]}.tmp"
        partial.mkdir()
        # Until it is locked, another export may consider it abandoned.
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(partial, os.O_RDONLY)
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            if partial.exists():
                return partial, lock
            os.close(lock)


def _remove_abandoned(directory):
    for entry in directory.iterdir():
        if not is_partial(entry.name) or entry.is_symlink() or not entry.is_dir():
            continue
        with contextlib.suppress(OSError):  # it is being written, or another export deletes it
            lock = os.open(entry, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry)
            finally:
                os.close(lock)
