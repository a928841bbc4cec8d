"""Files of a corpus: patterns → paths → texts, one line at a time, also from compressed files and archives."""

import glob
import itertools
import os
import warnings
from collections.abc import Iterator

from kbert.checks import check_path, shown
from kbert.corpus.archives import BROKEN, file_texts
from kbert.files import similar_names

LONGEST_LINE = 1 << 23  # bytes: what is held in memory at once, and tokenised
_WINDOW = 1 << 16  # bytes that are judged at once: a text may begin like one and go on as something else
_MOST_UNREADABLE = 0.1  # share of the bytes of a text
_FEW_UNREADABLE = 0.005  # half the share in German text that is Latin-1
_LEAST_UNREADABLE = 16  # bytes: fewer say nothing about a text
_CONTROL = bytes({*range(32), 127} - set(b"\t\n\v\f\r"))


def find_files(patterns, are_texts: bool = True):
    """Finds the files that paths and glob patterns match, and checks all of them before any is read.

    Args:
        patterns: a path or glob pattern (`**` matches across directories), or a list of them.
        are_texts: whether the beginning of each file is checked, as for a corpus of text.

    Returns:
        list of str: the paths, sorted and without duplicates.

    Raises:
        TypeError: `patterns` is something else.
        ValueError: a pattern matches no file, or only a directory. A file cannot be opened or decompressed, or begins
            with binary data. All files are empty. The message names the pattern or file.

    Example::

        find_files(["wiki/*.gz", "novels.tar.gz"])
    """
    several = hasattr(patterns, "__iter__") and not isinstance(patterns, str)
    patterns = list(patterns) if several else [patterns]
    for pattern in patterns:
        check_path(pattern, "`patterns`", "a path or glob pattern, or a list of them")
    paths = set()
    for pattern in map(os.fspath, patterns):
        found = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
        files = [path for path in found if not os.path.isdir(path)]
        if not files and found:
            raise ValueError(f"{pattern} is a directory. Expected files: give a pattern such as {pattern}/*.txt")
        if not files:
            raise ValueError(
                f"No file matches {shown(pattern)}. Give the path of a text file or a glob pattern in quotes"
                f"{'' if glob.has_magic(pattern) else similar_names(pattern)}"
            )
        paths.update(files)
    if not paths:
        raise ValueError("Expected at least one path or pattern. Received: an empty list of patterns.")
    for path in paths:
        if are_texts:
            _check(path)
    if all(os.path.getsize(path) == 0 for path in paths):
        raise ValueError(f"The corpus is empty: {_some(paths)} have no content.")
    return sorted(paths)


def open_texts(path) -> Iterator[tuple[str, Iterator[str]]]:
    """Yields (name, lines) for each text of a file: one, or one for each member of a tar or zip archive.

    Gzip, bzip2, xz, tar and zip are recognised by content, and so are compressed members of an archive. Lines end at
    "\\n" only and come without it. A byte order mark is removed. Bytes that are not UTF-8 become U+FFFD, which the
    tokenizer deletes as it does NUL. Each `lines` must be read to its end before the next text is asked for. Memory is
    bounded by the longest line allowed, 8 MiB, whatever the files decompress to.

    A text of which more than half a percent is control characters or not UTF-8 gives a UserWarning; from a tenth on, it
    is a ValueError while it is read.
    """
    try:
        for name, stream in file_texts(path):
            yield name, _lines(name, stream)
    except BROKEN as error:
        raise ValueError(_damaged(path, error)) from error


def _lines(name, stream) -> Iterator[str]:
    window, window_size = [], 0  # lines that are not judged yet
    size = unreadable = 0  # of the lines that are judged
    with stream:
        for number in itertools.count(1):
            line = _read_line(stream, name, number)
            if number == 1:
                if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise ValueError(f"{name} is UTF-16. Convert it to UTF-8, e.g. iconv -f UTF-16 -t UTF-8.")
                line = line.removeprefix(b"\xef\xbb\xbf")
            window.append(line)
            window_size += len(line)
            if window_size >= _WINDOW or not line:
                in_window = _unreadable(b"".join(window))
                size, unreadable = size + window_size, unreadable + in_window
                if not line:
                    break
                _check_readable(name, in_window, window_size)
                window, window_size = [], 0
            yield line.removesuffix(b"\n").decode("utf-8", "replace")
    _check_readable(name, unreadable, size)  # a short text has not filled a window
    if unreadable >= _LEAST_UNREADABLE and unreadable > _FEW_UNREADABLE * size:
        warnings.warn(
            f"{name}: {unreadable / size:.1%} of the text are control characters or not UTF-8, and left out. If it has "
            "another encoding, convert it, e.g. iconv -f ISO-8859-1 -t UTF-8.",
            stacklevel=2,
        )


def _unreadable(content):
    """How many control characters and bytes that are not UTF-8 there are."""
    control = len(content) - len(content.translate(None, _CONTROL))
    if content.isascii():
        return control
    return control + content.decode("utf-8", "replace").count("\ufffd") - content.count(b"\xef\xbf\xbd")


def _check_readable(name, unreadable, size):
    if unreadable >= _LEAST_UNREADABLE and unreadable > _MOST_UNREADABLE * size:
        raise ValueError(
            f"{name}: expected text in UTF-8. Received: binary data, or another encoding: of {size:,} bytes, "
            f"{unreadable / size:.0%} are control characters or not UTF-8. Leave it out, or convert it, e.g. iconv -f "
            "WINDOWS-1252 -t UTF-8."
        )


def _read_line(reader, name, number):
    try:
        line = reader.readline(LONGEST_LINE + 1)
    except BROKEN as error:
        raise ValueError(_damaged(name, error)) from error
    if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
        raise ValueError(
            f"{name}, line {number}: expected text in lines of at most {LONGEST_LINE:,} bytes. Received: a longer one. "
            "Add line ends after sentences or paragraphs."
        )
    return line


def is_parquet(path) -> bool:
    """Whether a file begins as Parquet files do."""
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _check(path):
    try:
        if is_parquet(path):
            return
        for name, stream in file_texts(path):
            start = stream.peek(_WINDOW)
            if not start.startswith((b"\xff\xfe", b"\xfe\xff")):  # reading it has the better message
                _check_readable(name, _unreadable(start), len(start))
            break
    except BROKEN as error:
        raise ValueError(_damaged(path, error)) from error


def _damaged(name, error):
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, ValueError) and str(name) in reason:  # one of ours, complete
        return reason
    return f"Cannot read {name}: {reason}. The file is damaged, truncated, or not readable by this user."


def _some(paths):
    paths = sorted(paths)
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
