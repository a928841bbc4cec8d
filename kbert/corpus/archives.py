"""The members of tar and zip archives, one stream at a time; a truncated archive is an error."""

import contextlib
import io
import struct
import tarfile
import zipfile
from collections.abc import Iterator

from kbert.corpus.compressed import DAMAGED, decompressed

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
        if documents := _DOCUMENTS.intersection(archive.namelist()):
            raise ValueError(
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
