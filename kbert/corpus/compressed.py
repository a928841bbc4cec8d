"""Compressed files as streams with bounded memory, which skip nothing silently."""

import bz2
import gzip
import io
import lzma
import zlib

DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError)  # what reading a damaged stream raises
_CHUNK = 1 << 16
_XZ_MEMORY = 1 << 28  # bytes; `xz -9` needs 65 MB, a crafted file may ask for 4 GB
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


def open_decompressed(path):
    """A binary stream of a file's content; gzip, bzip2 and xz (recognised by their first bytes) are decompressed.

    Raises:
        ValueError: a format that is not supported.
        OSError: no such file, or no permission. The errors of `DAMAGED`, also while reading: the file is damaged.
    """
    with open(path, "rb") as file:
        start = file.read(8)
    for magic, name in _OTHERS.items():
        if start.startswith(magic):
            raise ValueError(f"{path} is {name}, which is not supported. Give plain text, gzip, bzip2, xz, tar or zip.")
    if start.startswith(b"\x1f\x8b"):
        return gzip.open(path, "rb")
    if start.startswith(b"BZh"):
        return _Decompressed(path, bz2.BZ2Decompressor)
    if start.startswith(b"\xfd7zXZ\x00"):
        return _Decompressed(path, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _XZ_MEMORY), padding=b"\x00")
    return open(path, "rb")


class _Decompressed(io.RawIOBase):
    """Concatenated streams of bzip2 or xz. Python's own readers skip whatever follows the first damaged header."""

    def __init__(self, path, make_decompressor, padding=b""):
        super().__init__()
        self._file, self._make, self._padding = open(path, "rb"), make_decompressor, padding
        self._decompressor = make_decompressor()

    def readable(self):
        return True

    def readinto(self, buffer):
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

    def close(self):
        self._file.close()
        super().close()
