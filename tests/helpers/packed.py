"""Texts packed into archives, in memory."""

import io
import tarfile
import zipfile


def tar_of(contents, compress=bytes):
    """A tar archive of 0.txt, 1.txt, … with these contents, compressed by a function."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for number, content in enumerate(contents):
            member = tarfile.TarInfo(f"{number}.txt")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return compress(buffer.getvalue())


def zip_of(contents, compression=zipfile.ZIP_DEFLATED):
    """A zip archive of the same."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for number, content in enumerate(contents):
            archive.writestr(f"{number}.txt", content)
    return buffer.getvalue()
