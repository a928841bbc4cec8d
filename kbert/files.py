"""Atomic, synced files and directories; hashes; JSON with errors that name the fault."""

import contextlib
import ctypes
import difflib
import errno
import fnmatch
import glob
import hashlib
import json
import os
import pathlib
import shutil
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from kbert.aliases import PathLike
from kbert.checks import check_option

_LARGEST = 1 << 26  # bytes of JSON: a manifest of 100,000 shards has half of it
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)  # an old kernel, another file system


def similar_names(path: str | os.PathLike) -> str:
    """The end of a message on a path that is not there: the names there that are like its first missing part, or ""."""
    path = os.fspath(path)
    while (parent := os.path.dirname(path)) and not os.path.exists(parent):
        path = parent
    try:
        names = sorted(os.listdir(parent or "."))[:1000]
    except (OSError, ValueError):  # ValueError: a null character
        return ""
    near = difflib.get_close_matches(os.path.basename(path), names, n=3, cutoff=0.5)
    return f". In {parent or '.'} there is: {', '.join(near)}" if near else ""


def check_file(path: pathlib.Path, expected: str) -> None:
    """Raises FileNotFoundError, with the names there that are like it, unless there is a file at `path`."""
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected {expected}. Received: {str(path)!r}, which is not a file{similar_names(path)}"
        )


def parse_json(text: str | bytes, where: str, **options) -> Any:
    """The value that JSON, in UTF-8 where it is bytes, stands for; messages begin with `where`."""
    try:
        return json.loads(text, **options)
    except json.JSONDecodeError as error:
        line = f", line {error.lineno}" if error.lineno > 1 else ""
        reason = f"{error.msg} at column {error.colno}"
        raise ValueError(f"{where}{line}: not JSON ({reason}). Received: {text[:80]!r}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}: invalid UTF-8 at byte {error.start}; expected JSON in UTF-8.") from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, thousands of levels
        raise ValueError(f"{where}: expected JSON as other programs write it. Received: {error}") from None


def read_small(path: PathLike) -> bytes:
    """The content of a file that describes something: a configuration, a manifest, a vocabulary."""
    with open(path, "rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        size = os.stat(path).st_size
        raise ValueError(f"{path}: expected at most {_LARGEST:,} bytes. Received: {size:,} bytes. Is it another file?")
    return content


def read_json(path: PathLike, kind: type = dict, *, data: bool = False) -> Any:
    """What a JSON file holds, of an expected type; a byte order mark is skipped. A user's `data` may have any size."""
    path = pathlib.Path(path)
    check_file(path, "a JSON file")
    content = path.read_bytes() if data else read_small(path)
    value = parse_json(content.removeprefix(b"\xef\xbb\xbf"), str(path))
    if not isinstance(value, kind):
        names = {dict: "object", list: "list"}
        raise ValueError(f"{path}: expected a JSON {names.get(kind, kind.__name__)}. Received: {type(value).__name__}")
    return value


def to_json(value: Any, indent: int = 2) -> str:
    """JSON of so many spaces a level, with a line end; ASCII where there is the name of a file that is not UTF-8."""
    content = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    try:
        content.encode()
    except UnicodeEncodeError:
        content = json.dumps(value, indent=indent, allow_nan=False)
    return content + "\n"


def check_json(owner: str, **values) -> None:
    """Raises ValueError unless each value, by the name of its argument, is None or a dict that fits into JSON."""
    for name, value in values.items():
        check_option(owner, name, value, dict | None)
        try:
            to_json(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{owner}: `{name}` must fit into JSON ({error}). Received: {value!r:.200}") from None


def write_json(path: PathLike, value: Any) -> None:
    """Writes a JSON file atomically."""
    try:
        content = to_json(value)
    except ValueError as error:
        raise ValueError(f"{path}: JSON holds finite numbers only ({error}).") from error
    with atomic_file(path) as file:
        file.write(content)


@contextlib.contextmanager
def atomic_file(path: PathLike, mode: str = "w") -> Iterator[Any]:
    """A file to write that gets its name, whole and flushed to the disk, when the block ends without an error.

    Of a symbolic link, the file that it points to is replaced. Text is in UTF-8, with line ends as they are written.
    """
    path = pathlib.Path(os.path.realpath(path))
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    is_text = "b" not in mode
    with explain_full_disk(path):
        try:
            with open(partial, mode, encoding="utf-8" if is_text else None, newline="" if is_text else None) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
            flush(path.parent)
        finally:
            partial.unlink(missing_ok=True)


class WriteFault(OSError):
    """A file or directory could not be written, as the disk is full or broken; the message names it."""

    def __str__(self):
        return self.strerror


@contextlib.contextmanager
def explain_full_disk(path: PathLike, needed: int | None = None) -> Iterator[None]:
    """Turns the errors of libraries that find the disk full, or broken, into a `WriteFault` that names the path.

    Of a full disk (or quota) the message names the space that is free, and the bytes that are needed where known.
    """
    try:
        yield
    except Exception as error:  # TensorFlow has errors of its own
        code = getattr(error, "errno", None)
        if code not in (*_FULL, errno.EIO):
            code = next((code for code in (*_FULL, errno.EIO) if os.strerror(code) in str(error)), None)
        if code is None:
            raise
        message = f"{path}: not written, {os.strerror(code).lower()}"
        if code == errno.EIO:
            raise WriteFault(code, f"{message} of the disk.") from error
        place = next(parent for parent in pathlib.Path(path).absolute().parents if parent.exists())
        need = "" if needed is None else f"{needed / 1e6:,.1f} MB are needed, "
        free = f"{shutil.disk_usage(place).free / 1e6:,.1f} MB are free there"
        raise WriteFault(code, f"{message}: {need}{free}. Make room and give the same command again.") from error


def check_directory_is_free(path: PathLike, own_files: tuple[str, ...], overwrite: bool) -> None:
    """Raises FileExistsError if there is something at `path` that may not be replaced; call it before long work.

    A directory that holds nothing but `own_files`, patterns of names, may be replaced if `overwrite` says so, but never
    the one in which the process stands, which `write_directory` would take away, nor a mounted volume, which cannot be
    renamed.
    """
    check_option("check_directory_is_free", "overwrite", overwrite, bool)
    path = pathlib.Path(path)
    if not path.exists():
        return
    with contextlib.suppress(FileNotFoundError):  # the current directory was deleted
        if path.samefile("."):
            raise FileExistsError(f"Expected a new directory to save to. Received: {path}, the current directory")
    if path.resolve().is_mount():
        raise FileExistsError(
            f"Expected a new directory to save to. Received: {path}, a mounted volume; give a directory in it"
        )
    present = sorted(entry.name for entry in path.iterdir())
    others = [name for name in present if not any(fnmatch.fnmatchcase(name, pattern) for pattern in own_files)]
    if others:
        raise FileExistsError(
            f"{path}: expected a new directory, or one with {', '.join(own_files)} alone. Received: {others[:8]}"
        )
    if present and not overwrite:
        raise FileExistsError(
            f"{path} already holds {', '.join(present[:4])}. Pass overwrite=True (--overwrite) to replace them."
        )


def write_directory(
    path: PathLike, write: Callable[[pathlib.Path], None], needed: int | None = None, replace: bool = True
) -> None:
    """Lets `write` fill a directory of another name beside `path`, flushes and renames it; replaces what was at `path`.

    Where `path` is a symbolic link the directory that it points to is replaced. If `write` fails, nothing of it
    remains and `path` is as it was. A process that is killed leaves the old directory or the new one at `path`: the
    two exchange their names in one step. On a file system that cannot do this there may be none for a moment, which
    `remove_partial`, and the next call for the same path, put right. `needed` is as in `explain_full_disk`. Without
    `replace`, something that is at `path` by then raises FileExistsError.
    """
    path = pathlib.Path(path).resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.parent / f".{path.name}.{uuid.uuid4().hex[:8]}.tmp"
    with explain_full_disk(path, needed):
        for old in path.parent.glob(f".{glob.escape(path.name)}.*.tmp.old"):
            _put_back(old)
        try:
            partial.mkdir()
            write(partial)
            flush_tree(partial)
            if not path.exists():
                os.rename(partial, path)
            elif not replace:
                raise FileExistsError(f"{path} exists: another process wrote it meanwhile.")
            elif not _exchange(partial, path):
                _rename_both(partial, path)
            flush(path.parent)  # the new name before the old content goes
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _exchange(first, second):
    """Exchanges the names of two directories in one step; False where the system or file system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:  # another system than Linux
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if rename(here, os.fsencode(first), here, os.fsencode(second), exchange) == 0:
        return True
    code = ctypes.get_errno()
    if code not in _NO_EXCHANGE:
        raise OSError(code, os.strerror(code), str(second))
    return False


def _rename_both(partial, path):
    """Gives a complete directory the name of another, which is deleted; `_put_back` mends what a kill leaves."""
    old = partial.with_name(partial.name + ".old")
    os.rename(path, old)
    try:
        os.rename(partial, path)
    except BaseException:
        os.rename(old, path)
        raise
    flush(path.parent)
    shutil.rmtree(old)


def _put_back(old):
    """Gives the old directory of a killed `_rename_both` its name again, if the new one has not got it."""
    path = old.with_name(old.name.removesuffix(".tmp.old").rpartition(".")[0].removeprefix("."))
    if not path.exists():
        os.rename(old, path)
        flush(path.parent)


def is_partial(name: str) -> bool:
    """Whether a file or directory of this name was being written by `atomic_file` or `write_directory`."""
    return name.startswith(".") and (name.endswith((".tmp", ".tmp.old")))


def remove_partial(directory: PathLike) -> None:
    """Deletes what a killed process left half written in a directory that only this process writes to."""
    for entry in pathlib.Path(directory).iterdir():
        if entry.name.endswith(".tmp.old") and is_partial(entry.name):
            _put_back(entry)
    for entry in pathlib.Path(directory).iterdir():
        if is_partial(entry.name):
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def flush(path: PathLike) -> None:
    """Forces a file, or the names in a directory, onto the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_tree(directory: pathlib.Path) -> None:
    """Forces a directory with all that is in it onto the disk."""
    for root, _, names in os.walk(directory):
        for name in names:
            flush(os.path.join(root, name))
        flush(root)


def sha256(path: PathLike) -> str:
    """The hash of a file's content, 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
