"""A directory, or a file, that one process at a time writes to."""

import contextlib
import datetime
import errno
import logging
import os
import pathlib
import socket
import stat
from collections.abc import Iterator

from kbert.files import explain_full_disk
from kbert.options import PathLike

LOCK = ".lock"
_LOGGER = logging.getLogger("kbert")
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_held = {}  # path of a lock file -> (its handle, the process that opened it: after a fork the child has both)


def lock_directory(directory: PathLike) -> None:
    """Claims a directory for this process, until `unlock_directory` or the end of the process, however it ends.

    The claim is a lock of the operating system on the file ``.lock`` in it, which says who holds it. A process may
    claim a directory again that it holds already. Where the file system has no locks, a line says so.
    """
    unlock_directory(directory)
    path = pathlib.Path(directory).resolve() / LOCK
    _lock(path, path.parent)


@contextlib.contextmanager
def locked_output(path: PathLike) -> Iterator[pathlib.Path]:
    """Claims a file to write for the block: another claim, of this process or another one, is an error.

    The lock is the file ``.<name>.lock`` beside it. Directories that are missing are made, and deleted again at the
    end if they are still empty.

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


def _lock(path, claimed):
    while (handle := _try_lock(path, claimed)) is not None:
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                break
        os.close(handle)  # its holder deleted the file between our opening and our locking it
    if handle is None:
        return
    since = datetime.datetime.now(datetime.UTC).isoformat(sep=" ", timespec="seconds")
    _held[path] = handle, os.getpid()
    try:
        with explain_full_disk(path):
            os.ftruncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {socket.gethostname()} since {since}\n".encode())
    except OSError:
        _unlock(path)
        raise


def _try_lock(path, claimed):
    """A handle with the lock, or None where the file system has no locks."""
    import fcntl  # POSIX only

    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)  # a link's file would be overwritten
    opened = os.fstat(handle)
    if not stat.S_ISREG(opened.st_mode) or opened.st_nlink > 1:
        os.close(handle)
        raise OSError(
            f"Expected a file that kbert made as a lock, or none. Received: {path}, which has another name (a"
            " hard link), or is no file; delete it"
        )
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.read(handle, 200).decode("utf-8", "replace").strip() or "another process"
        os.close(handle)
        if error.errno in _NO_LOCKS:
            path.unlink(missing_ok=True)
            _LOGGER.warning("%s: this file system has no locks; let no other process write there.", claimed)
            return None
        if not isinstance(error, BlockingIOError):
            raise
        raise BlockingIOError(
            f"{claimed} is in use by {holder}. Wait until it has ended, end it, or write elsewhere."
        ) from None
    return handle


def unlock_directory(directory: PathLike) -> None:
    """Gives up the claim of `lock_directory`; does nothing where this process has none."""
    _unlock(pathlib.Path(directory).resolve() / LOCK)


def _unlock(path):
    handle, process = _held.pop(path, (None, None))
    if handle is None:
        return
    if process == os.getpid():
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                path.unlink()
    os.close(handle)
