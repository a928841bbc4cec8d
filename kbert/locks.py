"""A directory or a file that one process at a time writes to, by the library filelock. Errors name the holder."""

import contextlib
import datetime
import errno
import logging
import os
import pathlib
import socket
from collections.abc import Iterator

import filelock

from kbert.aliases import PathLike

LOCK = ".lock"
_LOGGER = logging.getLogger("kbert")
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_held: dict[pathlib.Path, filelock.BaseFileLock] = {}


def lock_directory(directory: PathLike) -> None:
    """Locks a directory for this process, until `unlock_directory` or the end of the process, however it ends.

    The lock is the file ``.lock`` in it, which names its holder. A process may lock a directory again that it has
    locked already. On a file system without locks, a warning says so.
    """
    unlock_directory(directory)
    path = pathlib.Path(directory).resolve() / LOCK
    _lock(path, path.parent)


def unlock_directory(directory: PathLike) -> None:
    """Releases the lock of `lock_directory`; does nothing where this process has none."""
    _unlock(pathlib.Path(directory).resolve() / LOCK)


@contextlib.contextmanager
def locked_output(path: PathLike) -> Iterator[pathlib.Path]:
    """Locks a file to write for the block. Another lock on it, by this process or another one, raises an error.

    The lock is the file ``.<name>.lock`` beside it. Missing directories are made, and deleted again at the end if they
    are still empty.

    Yields:
        The path with symbolic links resolved: what they point to is written.
    """
    path = pathlib.Path(os.path.realpath(path))
    new = [parent for parent in path.parents if not parent.exists()]
    lock = path.with_name(f".{path.name}{LOCK}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _lock(lock, path)
        try:
            yield path
        finally:
            _unlock(lock)
    finally:
        for directory in new:
            with contextlib.suppress(OSError):  # there is something in it
                directory.rmdir()


def _lock(path, locked):
    lock = filelock.FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        holder = ""
        with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
            holder = path.read_text(errors="replace").strip()
        raise BlockingIOError(
            f"{locked} is in use by {holder or 'another process'}. Wait until it has ended, end it, or write elsewhere."
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        path.unlink(missing_ok=True)
        _LOGGER.warning("%s: this file system has no locks; let no other process write there.", locked)
        return
    _held[path] = lock
    since = datetime.datetime.now(datetime.UTC).isoformat(sep=" ", timespec="seconds")
    with contextlib.suppress(OSError):  # such as a full disk: it is locked, but does not name its holder
        path.write_text(f"process {os.getpid()} on {socket.gethostname()} since {since}\n")


def _unlock(path):
    lock = _held.pop(path, None)
    if lock is not None and lock.is_locked:  # not in a process that was forked from the holder
        path.unlink(missing_ok=True)  # before it is released: then it may be another process'
        lock.release()
