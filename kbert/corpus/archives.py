"""Compressed files, tar and zip archives as streams with bounded memory, which skip nothing silently."""

import bz2
import contextlib
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator

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
_LARGEST_HEADER = 1 << 20  # bytes of a member's long name or attributes, which are read whole
_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def decompressed(stream, name) -> io.BufferedReader:
    """A binary stream without its compression (gzip, bzip2, xz), which is recognised by its first bytes."""
    stream = io.BufferedReader(stream, _CHUNK)
    start = stream.peek(8)
    for magic, format in _OTHERS.items():
        if start.startswith(magic):
            raise ValueError(
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
            raise ValueError(f"{name} is {format}, compressed once more. Decompress it once.")
    return content


class _Decompressed(io.RawIOBase):
    """Concatenated streams of bzip2 or xz. Python's own readers skip whatever follows the first damaged header."""

    def __init__(self, file, make_decompressor, padding=b""):
        super().__init__()
        self._file, self._make, self._padding = file, make_decompressor, padding
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


def file_texts(path) -> Iterator[tuple[str, io.BufferedReader]]:
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
                raise ValueError(f"Cannot read {name}: {error}. The member is damaged or truncated.") from error
            if start.startswith(_ZIP) or (start and _is_tar(start)):
                raise ValueError(f"{name} is an archive in an archive. Unpack it first.")
            yield name, text
        if name is None:
            raise ValueError(f"{path}: expected text. Received: an archive without a file in it, or a file of zeros.")


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
