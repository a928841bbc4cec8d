"""Files of a corpus: patterns → paths → texts, one line at a time, whatever they are packed in."""

import bz2
import glob
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator

_UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)
_OPENERS = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\x00", lzma.open))


def find_files(patterns):
    """The files that paths and glob patterns name, sorted, each once; all are looked at before any is read.

    Args:
        patterns: a path or glob pattern (`**` crosses directories), or a list of them.

    Raises:
        ValueError: a pattern that matches no file, a directory, a file that cannot be opened or decompressed, UTF-16,
            or nothing but empty files. The message names the pattern or file.
    """
    patterns = [patterns] if isinstance(patterns, str | os.PathLike) else list(patterns)
    paths = set()
    for pattern in map(os.fspath, patterns):
        found = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
        files = [path for path in found if not os.path.isdir(path)]
        if not files and found:
            raise ValueError(f"{pattern} is a directory. A corpus is files: give a pattern such as {pattern}/*.txt")
        if not files:
            raise ValueError(f"No file matches {pattern!r}. Give the path of a text file or a glob pattern in quotes.")
        paths.update(files)
    if not paths:
        raise ValueError("The corpus names no file. Received: an empty list of patterns.")
    for path in paths:
        _check(path)
    if all(os.path.getsize(path) == 0 for path in paths):
        raise ValueError(f"The corpus is empty: {_some(paths)} hold no bytes.")
    return sorted(paths)


def open_texts(path) -> Iterator[tuple[str, Iterator[str]]]:
    """Yields (name, lines) for each text of a file: one, or one for each member of a tar or zip archive.

    Gzip, bzip2, xz, tar (compressed or not) and zip are recognised by content. Lines end at "\\n" only and come without
    it; a byte order mark is removed; bytes that are not UTF-8 become U+FFFD, which the tokenizer deletes as it
    does NUL. Each `lines` must be used up before the next text is asked for.

    Raises:
        ValueError: while reading, if the file is damaged; names the file.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for member in sorted(archive.namelist()):
                    if not member.endswith("/"):
                        with archive.open(member) as stream:
                            yield f"{path}:{member}", _lines(f"{path}:{member}", stream)
        elif tarfile.is_tarfile(path):
            with tarfile.open(path, mode="r|*") as archive:
                for member in archive:
                    if member.isfile():
                        yield f"{path}:{member.name}", _lines(f"{path}:{member.name}", archive.extractfile(member))
        else:
            with _open(path) as stream:
                yield path, _lines(path, stream)
    except _UNREADABLE as error:
        raise ValueError(_damaged(path, error)) from error


def _lines(name, stream) -> Iterator[str]:
    first = True
    try:
        for line in io.BufferedReader(stream, 1 << 20):
            if first:
                first = False
                if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise ValueError(f"{name} is UTF-16. Convert it to UTF-8, e.g. iconv -f UTF-16 -t UTF-8.")
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield line.removesuffix(b"\n").decode("utf-8", "replace")
    except _UNREADABLE as error:
        raise ValueError(_damaged(name, error)) from error


def _open(path):
    with open(path, "rb") as stream:
        start = stream.read(8)
    for magic, opener in _OPENERS:
        if start.startswith(magic):
            return opener(path, "rb")
    return open(path, "rb")


def _check(path):
    try:
        with _open(path) as stream:
            stream.read(1024)
    except _UNREADABLE as error:
        raise ValueError(_damaged(path, error)) from error


def _damaged(name, error):
    reason = getattr(error, "strerror", None) or error
    return f"Cannot read {name}: {reason}. The file is damaged, cut short, or not to be read by this user."


def _some(paths):
    paths = sorted(paths)
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
