"""Compressed files as streams with bounded memory, which skip nothing silently."""

import bz2
import gzip
import io
import lzma
import zlib

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
