"""Corpora that are damaged, endless or no text: an error that names the file and line, in bounded memory."""

import bz2
import functools
import gzip
import io
import lzma
import re
import struct
import tarfile
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
from helpers.packed import tar_of, zip_of
from helpers.slow_but import slow_but
from helpers.wrong_values import wrong_inputs

from kbert.corpus import corpus_files
from kbert.corpus.documents import read_documents

TEXT = b"A first line .\nA second one .\n\nAnother document .\n" * 400
PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


def refused(path, content, match):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=match) as error:
        for _ in read_documents(path, "lines"):
            pass
    assert path.name in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("part", [0.2, 0.5, 0.99])
def test_compressed_and_cut(tmp_path, packer, part):
    content = PACKERS[packer](TEXT)
    refused(tmp_path / f"a.{packer}", content[: int(part * len(content))], "Cannot read")


@pytest.mark.parametrize("packer", PACKERS)
def test_several_streams_in_a_file(tmp_path, packer):
    """As pbzip2, and Wikipedia's dumps, have them; a damaged second one was taken for the end by Python's readers."""
    compress = PACKERS[packer]
    sound = compress(TEXT) + compress(b"\n\nThe last .\n")
    (tmp_path / "a").write_bytes(sound)
    assert list(read_documents(tmp_path / "a", "lines"))[-1] == ["The last ."]
    second = len(compress(TEXT))
    refused(tmp_path / "a", sound[:second] + b"\x01" + sound[second + 1 :], "Cannot read")
    refused(tmp_path / "a", sound + b"and more", "Cannot read")
    if packer != "bz2":  # padding is allowed
        (tmp_path / "a").write_bytes(sound + bytes(8))
        assert list(read_documents(tmp_path / "a", "lines"))[-1] == ["The last ."]


@pytest.mark.parametrize("packer", [None, *PACKERS])
def test_tar_archives_that_are_cut(tmp_path, packer):
    """In a member, between two members, in the end mark, and with a damaged header."""
    plain = tar_of([TEXT, TEXT, b"The last .\n"])
    pack = PACKERS.get(packer, bytes)
    (tmp_path / "a.tar").write_bytes(pack(plain))
    assert list(read_documents(tmp_path / "a.tar", "lines"))[-1] == ["The last ."]
    member = 512 * (1 + -(-len(TEXT) // 512))
    for end in (member // 2, member, member + 100, 2 * member, 2 * member + 512 + 5, 2 * member + 1024):
        refused(tmp_path / "a.tar", pack(plain[:end]), "Cannot read")
    for position in (member + 3, 2 * member + 150):
        damaged = bytearray(plain)
        damaged[position] ^= 1
        refused(tmp_path / "a.tar", pack(bytes(damaged)), "Cannot read")
    damaged = bytearray(plain)
    damaged[3] ^= 1  # the first header
    refused(tmp_path / "a.tar", pack(bytes(damaged)), "Cannot read")


def test_the_checksum_behind_a_compressed_tar_is_read(tmp_path):
    refused(tmp_path / "a.tgz", tar_of([TEXT], gzip.compress)[:-4], "Cannot read")


def test_zip_archives(tmp_path):
    whole = zip_of([TEXT, b"The last .\n"])
    refused(tmp_path / "a.zip", whole[:-30], "Cannot read")
    damaged = bytearray(whole)
    damaged[100] ^= 1
    refused(tmp_path / "a.zip", bytes(damaged), "Cannot read")
    refused(tmp_path / "a.zip", zip_of([TEXT], zipfile.ZIP_BZIP2), "stored or deflated")
    refused(tmp_path / "a.zip", zip_of([TEXT], zipfile.ZIP_LZMA), "stored or deflated")
    encrypted = bytearray(whole)
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        encrypted[whole.index(mark) + at] |= 1
    refused(tmp_path / "a.zip", bytes(encrypted), "encrypted")


def zip_with_names(*names):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name in names:
            file.writestr(name, TEXT)
    return archive.getvalue()


@pytest.mark.parametrize("name", ["[Content_Types].xml", "mimetype"])
def test_the_markup_of_documents_is_no_text(tmp_path, name):
    refused(tmp_path / "a.docx", zip_with_names(name, "word/document.xml"), "an office document or an e-book")


def test_a_zip_that_a_reader_would_only_see_a_part_of(tmp_path):
    """Of two archives in a row the first was skipped, silently; of a bomb each member is the same bytes."""
    whole = zip_of([TEXT])
    refused(tmp_path / "a.zip", zip_of([b"Skipped .\n"]) + whole, "data before the archive")
    directory, end = whole.index(b"PK\1\2"), whole.index(b"PK\5\6")
    entry = whole[directory:end]
    ends = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 9, 9, 9 * len(entry), directory, 0)
    refused(tmp_path / "a.zip", whole[:directory] + 9 * entry + ends, "two members are the same bytes")


def test_what_is_no_text(tmp_path):
    def read(start):
        (tmp_path / "a.txt").write_bytes(start + TEXT)
        read_documents(tmp_path / "a.txt")  # before anything is read

    names = {
        b"\x28\xb5\x2f\xfd": "zstd",
        b"\x04\x22\x4d\x18": "lz4",
        b"7z\xbc\xaf\x27\x1c": "7-Zip",
        b"%PDF-1.7": "PDF",
    }
    message = "a.txt is {}, which is not supported. Give plain text"
    wrong_inputs(read, *((start, message.format(name)) for start, name in names.items()))


ARCHIVES = {"tar": tar_of, "tgz": lambda contents: tar_of(contents, gzip.compress), "zip": zip_of}


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("archive", ARCHIVES)
def test_compressed_members(tmp_path, archive, packer):
    """A tar of texts, each compressed by itself, was read as text made of the compressed bytes."""
    pack = PACKERS[packer]
    (tmp_path / "a").write_bytes(TEXT)
    expected = list(read_documents(tmp_path / "a", "lines"))
    (tmp_path / "a").write_bytes(ARCHIVES[archive]([pack(TEXT), b"Plain .\n", pack(b""), pack(b"The last .\n")]))
    assert list(read_documents(tmp_path / "a", "lines")) == [*expected, ["Plain ."], ["The last ."]]
    refused(tmp_path / "a", ARCHIVES[archive]([b"one\n", pack(TEXT)[:-20]]), "Cannot read .*a:1.txt")
    refused(tmp_path / "a", ARCHIVES[archive]([b"one\n", pack(pack(TEXT))]), "a:1.txt is .*, compressed once more")


@pytest.mark.parametrize("packer", PACKERS)
def test_compressed_twice(tmp_path, packer):
    refused(tmp_path / "a.gz", PACKERS[packer](gzip.compress(TEXT)), "a.gz is gzip, compressed once more")


@pytest.mark.parametrize("archive", ARCHIVES)
@pytest.mark.parametrize("inner", [tar_of, zip_of, lambda contents: tar_of(contents, lzma.compress)])
def test_archives_in_archives(tmp_path, archive, inner):
    refused(tmp_path / "a", ARCHIVES[archive]([TEXT, inner([TEXT])]), "a:1.txt is an archive in an archive")


def test_an_archive_without_files(tmp_path):
    for content in (tar_of([]), zip_of([]), bytes(200_000), gzip.compress(bytes(10_240))):
        refused(
            tmp_path / "a", content, "a: expected text. Received: an archive without a file in it, or a file of zeros"
        )


def test_a_tar_whose_first_block_several_streams_hold(tmp_path):
    whole = tar_of([b"one\n"])
    (tmp_path / "a").write_bytes(b"".join(bz2.compress(whole[i : i + 100]) for i in range(0, len(whole), 100)))
    assert list(read_documents(tmp_path / "a", "lines")) == [["one"]]


_RNG = np.random.default_rng(0)
RUSSIAN = "Это предложение на русском языке .\n" * 50
BINARY = {
    "random": _RNG.bytes(200_000),
    "a little": _RNG.bytes(100),
    "hdf5": b"\x89HDF\r\n\x1a\n" + bytes(2000) + b"weights" + bytes(500) + _RNG.bytes(5000),
    "npy": b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'}".ljust(128) + _RNG.normal(size=500).astype("<f4").tobytes(),
    "AppleDouble": b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        " + bytes(120),
    "integers": np.arange(5000, dtype="<i4").tobytes(),
    "Windows-1251": RUSSIAN.encode("cp1251"),
    "Shift JIS": ("日本語の文章です。\n" * 50).encode("shift_jis"),
    "UTF-16 without a mark": TEXT.decode().encode("utf-16-le"),
    "overstruck": b"".join(bytes([c, 8, c]) for c in TEXT),
}


@pytest.mark.parametrize("kind", BINARY)
def test_binary_data_is_no_text(tmp_path, kind):
    """As a file, behind a text, compressed, and as the member of an archive, whose name is in the error."""
    message = "expected text in UTF-8. Received: binary data, or another encoding"
    (tmp_path / "a").write_bytes(BINARY[kind])
    with pytest.raises(ValueError, match=f"a: {message}"):
        read_documents(tmp_path / "a")  # before anything is read
    refused(tmp_path / "a", gzip.compress(BINARY[kind]), message)
    for archive in ARCHIVES.values():
        refused(tmp_path / "a", archive([TEXT, BINARY[kind]]), f"a:1.txt: {message}")
    refused(tmp_path / "a", tar_of([TEXT, bz2.compress(BINARY[kind])]), f"a:1.txt: {message}")
    if len(BINARY[kind]) > 100_000:
        refused(tmp_path / "a", TEXT * 100 + BINARY[kind], f"a: {message}")


@pytest.mark.parametrize(
    "content, fraction",
    [
        ("Der Käufer geht langsam über die Straße und bleibt dann stehen .\n".encode("latin-1") * 50, "4.6%"),
        (b"Most of it is quite plain, and as good as any text is. But here \x00\x01 .\n" * 50, "2.9%"),
        ("Plain \ufffd words .\n".encode() * 50, None),  # somebody else has replaced them
        (TEXT + b"\x00" * 15 + b"\n", None),
        (RUSSIAN.encode(), None),
        ("naïve café 中文 \U0001f600\n".encode() * 500, None),
    ],
)
def test_text_that_is_damaged_in_places(tmp_path, content, fraction):
    (tmp_path / "a.txt").write_bytes(content)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert list(read_documents(tmp_path / "a.txt", "lines"))
    messages = [str(warning.message) for warning in caught if warning.category is UserWarning]
    assert len(messages) == (fraction is not None)
    for message in messages:
        assert re.search(f"a.txt: {fraction} of the text are control characters or not UTF-8", message)


@pytest.fixture
def short_lines(monkeypatch):
    monkeypatch.setattr(corpus_files, "LONGEST_LINE", 100)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_too_long(tmp_path, short_lines, end):
    path = tmp_path / "a.txt"
    for length in (99, 100):
        path.write_bytes(b"one\n" + b"x" * length + end)
        assert list(read_documents(path, "lines")) == [["one", "x" * length]]
    refused(path, b"one\n\n" + b"x" * 101 + end, r"a.txt, line 3: expected text in lines of at most 100 bytes")


PLACES = {
    "plain": lambda text: text,
    **PACKERS,
    "tar": lambda text: tar_of([b"one\n", text]),
    "tgz": lambda text: tar_of([b"one\n", text], gzip.compress),
    "tbz": lambda text: tar_of([b"one\n", text], bz2.compress),
    "txz": lambda text: tar_of([b"one\n", text], lzma.compress),
    "zip": lambda text: zip_of([b"one\n", text]),
}


@functools.cache
def bomb(packed):
    return PLACES[packed](b"x" * 20_000_000)


@pytest.mark.filterwarnings("ignore:.*text outside of <doc>")
@pytest.mark.parametrize("packed", PLACES)
@pytest.mark.parametrize("format", slow_but(("auto",), ("auto", "lines", "prose", "wikiextractor")))
def test_a_line_without_end_takes_bounded_memory(tmp_path, monkeypatch, packed, format):
    """20 MB of one line; the file itself takes some KB. No more than a few times the limit is ever held."""
    monkeypatch.setattr(corpus_files, "LONGEST_LINE", 1 << 20)
    path = tmp_path / "bomb"
    path.write_bytes(bomb(packed))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="bomb.*, line 1: expected text in lines of at most 1,048,576 bytes"):
            list(read_documents(path, format))
        assert tracemalloc.get_traced_memory()[1] < 16e6
    finally:
        tracemalloc.stop()


def test_a_document_without_end_is_divided(tmp_path, monkeypatch):
    monkeypatch.setattr("kbert.corpus.documents._LONGEST_DOCUMENT", 1000)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"a b\n" * 200_000))
    tracemalloc.start()
    sizes = [len(document) for document in read_documents(path, "lines")]
    assert tracemalloc.get_traced_memory()[1] < 8e6
    tracemalloc.stop()
    assert sizes == [1000] * 200
    monkeypatch.setattr("kbert.corpus.documents._LONGEST_TEXT", 2500)
    for format, text in (("lines", b"x" * 999 + b" .\n"), ("wikiextractor", b"X" * 999 + b" y.\n")):
        path.write_bytes(b"<doc >\n\nT\n" * (format != "lines") + text * 10)
        with warnings.catch_warnings(action="ignore"):
            documents = list(read_documents(path, format))
        assert [len(document) for document in documents] == [3, 3, 3, 1]


def test_a_tar_of_many_members_is_not_gathered(tmp_path):
    path = tmp_path / "a.tar"
    path.write_bytes(tar_of([b"x\n"] * 5000))
    tracemalloc.start()
    assert sum(1 for _ in read_documents(path, "lines")) == 5000
    assert tracemalloc.get_traced_memory()[1] < 6e6
    tracemalloc.stop()


def test_a_header_without_end(tmp_path):
    """A name of 3 GB, as its header says."""
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 3 << 30
    content = header.tobuf(tarfile.GNU_FORMAT) + bytes(50_000_000)
    refused(tmp_path / "a.tar", gzip.compress(content, 1), "a header of 3,221,225,472 bytes")


WIKI = '<doc id="{n}" title="T">\nT\n\nThe text of document {n} is here.\n'
FIRST, SECOND, THIRD = ([f"The text of document {n} is here."] for n in (1, 2, 3))


@pytest.mark.parametrize(
    "content, documents, line, fault",
    [
        ("{1}{2}</doc>\n{3}</doc>\n", [FIRST, SECOND, THIRD], 5, "a <doc>, but the one of line 1 is not closed"),
        ("{1}</doc>\n{2}{3}</doc>\n", [FIRST, SECOND, THIRD], 10, "a <doc>, but the one of line 6 is not closed"),
        ("{1}</doc>\n{2}", [FIRST, SECOND], 6, "a <doc> that is not closed at the end of the file"),
        ("{1}</doc>\n</doc>\n{2}</doc>\n", [FIRST, SECOND], 6, "a </doc> without its <doc>"),
        ("{1}{2}</doc>\nThis is more of it.\n</doc>\n", [FIRST, SECOND, ["This is more of it."]], 5, "a <doc>, but"),
        (
            "{1}</doc>\nIt is outside of all.\n{2}</doc>\n",
            [FIRST, ["It is outside of all."], SECOND],
            6,
            "text outside of",
        ),
        ("{1}</doc>\n\n \n{2}</doc>\n\n", [FIRST, SECOND], None, None),
    ],
)
def test_marks_that_do_not_match(tmp_path, content, documents, line, fault):
    """No text is lost, and the file and line are named."""
    for n in (1, 2, 3):
        content = content.replace(f"{{{n}}}", WIKI.replace("{n}", str(n)))
    (tmp_path / "wiki_00").write_text(content)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert list(read_documents(tmp_path / "wiki_00")) == documents
    messages = [str(warning.message) for warning in caught if warning.category is UserWarning]
    assert len(messages) == (fault is not None)
    for message in messages:
        assert re.search(rf"wiki_00, line {line}: {re.escape(fault)}", message)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_what_follows_the_end_of_an_archive(tmp_path, pack):
    """Two archives in a file, and a text that begins as an empty archive does: half of it was not read, silently."""
    archive = tar_of([TEXT, b"The last .\n"])
    refused(tmp_path / "a.tar", pack(archive + tar_of([TEXT])), "data after the end of the archive")
    refused(tmp_path / "a.txt", pack(bytes(1024) + TEXT), "data after the end of the archive")
    # What a record holds behind the end mark is undefined.
    (tmp_path / "b.tar").write_bytes(pack(archive[:-100] + b"x" * 100))
    assert list(read_documents(tmp_path / "b.tar", "lines"))[-1] == ["The last ."]
