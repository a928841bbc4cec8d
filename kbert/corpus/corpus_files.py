"""Files of a corpus: patterns → paths → texts, one line at a time, also from compressed files and archives.

Gzip, bzip2, xz, tar and zip are streams with bounded memory, which skip nothing silently.
"""

import bz2
import contextlib
import glob
import gzip
import io
import itertools
import lzma
import os
import pathlib
import re
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any

from kbert.checks import check_path, shown
from kbert.errors import UnreadableInput
from kbert.files import similar_names

DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError)  # what reading a damaged stream raises
_CHUNK = 1 << 16
_XZ_MEMORY = 1 << 28  # bytes; `xz -9` needs 65 MB, a crafted file may ask for 4 GB
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
_OTHERS = {  # formats that would be read as text
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!\x1a": "RAR",
    b"\x1f\x9d": "compress",
    b"\x5d\x00\x00": "LZMA",
    b"%PDF-": "PDF",
    b"PAR1": "Parquet",
}
# What the two modules raise for damaged archives: their own errors, and whatever else wrong numbers lead to.
BROKEN = (
    *DAMAGED,
    tarfile.TarError,
    zipfile.BadZipFile,
    RuntimeError,
    ValueError,
    LookupError,
    ArithmeticError,
    struct.error,
)
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_DOCUMENTS = {"[Content_Types].xml", "mimetype"}  # of docx, xlsx, …; of odt, epub, …: their text is markup
_LARGEST_HEADER = 1 << 20  # bytes of a member's long name or attributes, which are read whole
_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
LONGEST_LINE = 1 << 23  # bytes: what is held in memory at once, and tokenised
_WINDOW = 1 << 16  # bytes that are judged at once: a text may begin like one and go on as something else
_MOST_UNREADABLE = 0.1  # fraction of the bytes of a text
_FEW_UNREADABLE = 0.005  # half the fraction in German text that is Latin-1
_LEAST_UNREADABLE = 16  # bytes: fewer say nothing about a text
_TFRECORDS = re.compile(r"\.tf_?records?([-_.*?\[][^/]*)?$")  # also of a shard or a pattern: x.tfrecord-00000-of-00010
_CONTROL = bytes({*range(32), 127} - set(b"\t\n\v\f\r"))


def find_files(
    patterns: str | os.PathLike | Iterable[str | os.PathLike],
    are_texts: bool = True,
    output: str | os.PathLike | None = None,
) -> list[str]:
    """Finds the files that paths and glob patterns match, and checks all of them before any is read.

    Args:
        patterns: a path or glob pattern (`**` matches across directories), or a list of them.
        are_texts: whether the beginning of each file is checked, as for a corpus of text.
        output: a directory whose files are left out, as the run that reads the others writes there.

    Returns:
        The paths, sorted and without duplicates.

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
    found: dict[str, str] = {}  # by absolute path, as "a.txt" and "./a.txt" are one file
    for pattern in map(os.fspath, patterns):
        matches = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
        matches = [path for path in matches if not _is_below(path, output)]
        files = [path for path in matches if not os.path.isdir(path)]
        if not files and matches:
            raise ValueError(f"{pattern} is a directory. Expected files: give a pattern such as {pattern}/*.txt")
        if not files:
            raise ValueError(
                f"No file matches {shown(pattern, 300)}. Give the path of a text file, a glob pattern in quotes, or a "
                "document as a list of sentences"
                f"{'' if glob.has_magic(pattern) else similar_names(pattern)}"
            )
        for path in files:
            found.setdefault(os.path.abspath(path), path)
    paths = sorted(found.values())
    if not paths:
        raise ValueError("Expected at least one path or pattern. Received: an empty list of patterns.")
    for path in paths:
        if are_texts:
            _check(path)
    if all(os.path.getsize(path) == 0 for path in paths):
        raise ValueError(f"The corpus is empty: {_some(paths)} have no content.")
    return paths


def is_tfrecords(source: Any) -> bool:
    """Whether something is path(s) or pattern(s) of files that end in .tfrecord, .tfrecords or .tf_record."""
    paths = [source] if isinstance(source, str | os.PathLike) else source
    if not isinstance(paths, list | tuple) or not paths:
        return False
    return all(isinstance(path, str | os.PathLike) and _TFRECORDS.search(os.fspath(path)) for path in paths)


def _is_below(path, directory):
    return directory is not None and pathlib.Path(path).resolve().is_relative_to(pathlib.Path(directory).resolve())


def open_texts(path: str | os.PathLike) -> Iterator[tuple[str | os.PathLike, Iterator[str]]]:
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
        raise UnreadableInput(_damaged(path, error)) from error


def _lines(name, stream) -> Iterator[str]:
    window, window_size = [], 0  # lines that are not judged yet
    size = unreadable = 0  # of the lines that are judged
    with stream:
        for number in itertools.count(1):
            line = _read_line(stream, name, number)
            if number == 1:
                if line.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise UnreadableInput(f"{name} is UTF-16. Convert it to UTF-8, e.g. iconv -f UTF-16 -t UTF-8.")
                line = line.removeprefix(b"\xef\xbb\xbf")
            window.append(line)
            window_size += len(line)
            if window_size >= _WINDOW or not line:
                in_window = _unreadable(b"".join(window))
                size = size + window_size
                unreadable = unreadable + in_window
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
        raise UnreadableInput(
            f"{name}: expected text in UTF-8. Received: binary data, or another encoding: of {size:,} bytes, "
            f"{unreadable / size:.0%} are control characters or not UTF-8. Leave it out, or convert it, e.g. iconv -f "
            "WINDOWS-1252 -t UTF-8."
        )


def _read_line(reader, name, number):
    try:
        line = reader.readline(LONGEST_LINE + 1)
    except BROKEN as error:
        raise UnreadableInput(_damaged(name, error)) from error
    if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
        raise UnreadableInput(
            f"{name}, line {number}: expected text in lines of at most {LONGEST_LINE:,} bytes. Received: a longer one. "
            "Add line ends after sentences or paragraphs."
        )
    return line


def is_parquet(path: str | os.PathLike) -> bool:
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
        raise UnreadableInput(_damaged(path, error)) from error


def _damaged(name, error):
    if isinstance(error, UnreadableInput):  # one of ours, complete
        return str(error)
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"Cannot read {name}: {reason}. The file is damaged, truncated, or not readable by this user."


def _some(paths):
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def decompressed(stream: IO[bytes], name: str | os.PathLike) -> io.BufferedReader:
    """A binary stream without its compression (gzip, bzip2, xz), which is recognised by its first bytes."""
    stream = io.BufferedReader(stream, _CHUNK)
    start = stream.peek(8)
    for magic, format in _OTHERS.items():
        if start.startswith(magic):
            raise UnreadableInput(
                f"{name} is {format}, which is not supported. Give plain text, gzip, bzip2, xz, tar or zip."
            )
    packed = next((format for magic, format in _PACKED.items() if start.startswith(magic)), None)
    if packed is None:
        return stream
    if packed == "gzip":
        content = gzip.GzipFile(fileobj=stream)
    elif packed == "bzip2":
        content = _Decompressed(stream, bz2.BZ2Decompressor)
    else:
        content = _Decompressed(stream, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY), padding=b"\x00")
    content = io.BufferedReader(content, _CHUNK)
    start = content.peek(8)
    for magic, format in (_PACKED | _OTHERS).items():
        if start.startswith(magic):
            raise UnreadableInput(f"{name} is {format}, compressed once more. Decompress it once.")
    return content


class _Decompressed(io.RawIOBase):
    """Concatenated streams of bzip2 or xz. Python's own readers skip whatever follows the first damaged header."""

    def __init__(self, file, make_decompressor, padding=b""):
        super().__init__()
        self._file = file
        self._make = make_decompressor
        self._padding = padding
        self._decompressor = make_decompressor()

    def readable(self):
        return True

    def readinto(self, buffer):
        """Fills the buffer unless the file ends.

        A text is recognised by its first bytes, which two compressed streams may share.
        """
        with memoryview(buffer) as view:
            filled = 0
            while filled < len(view) and (size := self._read_part(view[filled:])):
                filled += size
            return filled

    def _read_part(self, buffer):
        while True:
            content = b""
            if self._decompressor.eof:
                content = self._decompressor.unused_data
                if not content.lstrip(self._padding):
                    content = self._file.read(_CHUNK)
                if not content:
                    return 0
                content = content.lstrip(self._padding) if self._padding else content
                if not content:
                    continue
                self._decompressor = self._make()
            elif self._decompressor.needs_input:
                content = self._file.read(_CHUNK)
                if not content:
                    raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            content = self._decompressor.decompress(content, len(buffer))
            if content:
                buffer[: len(content)] = content
                return len(content)


def file_texts(path: str | os.PathLike) -> Iterator[tuple[str | os.PathLike, io.BufferedReader]]:
    """(name, binary stream) of each text in a file: the file itself, or each member of an archive.

    Compression and archives are recognised by their first bytes. Members may be compressed too. A tar's members come in
    its order, a zip's sorted by name. Each stream must be read to its end before the next one is asked for.
    """
    with open(path, "rb") as file, decompressed(file, path) as stream:
        start = stream.peek(tarfile.BLOCKSIZE)
        if start.startswith(_ZIP):
            members = _zip_members(path)
        elif _is_tar(start):
            members = _tar_members(stream)
        else:
            yield path, stream
            return
        name = None
        for member, content in members:
            name = f"{path}:{member}"
            try:
                text = decompressed(content, name)
                start = text.peek(tarfile.BLOCKSIZE)
            except DAMAGED as error:
                raise UnreadableInput(f"Cannot read {name}: {error}. The member is damaged or truncated.") from error
            if start.startswith(_ZIP) or (start and _is_tar(start)):
                raise UnreadableInput(f"{name} is an archive in an archive. Unpack it first.")
            yield name, text
        if name is None:
            raise UnreadableInput(
                f"{path}: expected text. Received: an archive without a file in it, or a file of zeros."
            )


def _is_tar(start):
    if start[257:262] == b"ustar":
        return True
    try:
        tarfile.TarInfo.frombuf(start[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.EOFHeaderError:
        return True  # an empty archive
    except tarfile.HeaderError:
        return False
    return True


def _zip_members(path):
    with zipfile.ZipFile(path) as archive:
        if documents := _DOCUMENTS.intersection(archive.namelist()):
            raise UnreadableInput(
                f"{path} has {documents.pop()}: it is an office document or an e-book. Save it as plain text."
            )
        offsets = [member.header_offset for member in archive.infolist()]
        if offsets and (min(offsets) > 0 or len(set(offsets)) < len(offsets)):
            raise zipfile.BadZipFile("there is data before the archive, or two members are the same bytes")
        for member in sorted(archive.infolist(), key=lambda member: member.filename):
            if member.is_dir():
                continue
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # Python decompresses the others in pieces without bound.
                raise zipfile.BadZipFile(f"expected stored or deflated members; {member.filename} is neither")
            with archive.open(member) as stream:
                yield member.filename, stream


def _tar_members(content):
    with tarfile.open(fileobj=content, mode="r|", tarinfo=_Member) as archive:
        for member in archive:
            archive.members.clear()  # tarfile keeps all that it has read
            if member.isfile():
                with contextlib.closing(archive.extractfile(member)) as stream:
                    yield member.name, stream
        _check_rest(archive.fileobj)


def _check_rest(stream):
    """Reads everything after the end mark, so that the checksums of the compression are checked.

    The last record may be padded with anything, unless the archive is empty. After it only zeros are allowed: a second
    archive, or a text that begins with zeros, would otherwise be skipped silently.
    """
    position = stream.tell()
    if position > tarfile.BLOCKSIZE:
        block = tarfile.BLOCKSIZE  # tarfile has read the first of the end mark's two
        stream.read(-(position + block) % tarfile.RECORDSIZE + block)
    while rest := stream.read(1 << 20):
        if rest.strip(b"\0"):
            raise tarfile.ReadError("there is data after the end of the archive")


class _Member(tarfile.TarInfo):
    """A member for which a damaged header is an error; `tarfile` treats one as the end of the archive."""

    @classmethod
    def frombuf(cls, buf, encoding, errors):
        try:
            member = super().frombuf(buf, encoding, errors)
        except tarfile.EOFHeaderError:
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"{error} where a member's header or the end of the archive should be") from None
        if member.size < 0 or (member.type in _HEADERS and member.size > _LARGEST_HEADER):
            raise tarfile.ReadError(f"a header of {member.size:,} bytes")
        return member
