"""Damaged corpora and records, 2,000 of each kind: text, or a ValueError that names the file."""

import bz2
import gzip
import lzma
import warnings

import pytest
from helpers.fuzz import check_reader
from helpers.packed import tar_of, zip_of
from helpers.tiny_corpus import make_documents, make_tokenizer

from kbert.corpus.documents import FORMATS, read_documents
from kbert.corpus.records import Records
from kbert.corpus.write_records import write_records

LINES = "A first line .\nA second one, é 中 .\n\n\n\nAnother document .\n".encode() * 5
PROSE = (
    "CHAPTER I.\n\nMr. Smith walked slowly over the old bridge, which was narrow and\nnone too safe. “Why?”\n\n" * 6
).encode()
WIKI = b'<doc id="12" url="u" title="T">\nT\n\nIt is a <b>text</b> of 1,000 words &amp; more.\n* item\n</doc>\n' * 5
TEXTS = [LINES, PROSE, WIKI]
CONTENTS = {
    "plain": TEXTS,
    "gzip": [gzip.compress(text, mtime=0) for text in TEXTS] + [gzip.compress(LINES, mtime=0) * 2],
    "bzip2": [bz2.compress(text) for text in TEXTS] + [bz2.compress(LINES) * 2],
    "xz": [lzma.compress(text) for text in TEXTS] + [lzma.compress(LINES) * 2],
    "wikiextractor": [WIKI, WIKI * 3],
    "tar": [tar_of(TEXTS), tar_of([LINES], gzip.compress)],
    "zip": [zip_of(TEXTS), zip_of([LINES])],
}


@pytest.mark.parametrize("count", [40, pytest.param(2_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", CONTENTS)
def test_damaged_corpora(tmp_path, kind, count):
    formats = ["wikiextractor"] if kind == "wikiextractor" else FORMATS

    def read(path):
        failures = []
        for format in formats:
            try:
                for document in read_documents(path, format):
                    assert document and all(document)
            except ValueError as error:
                failures.append(error)
        try:
            if failures:
                raise failures[0]
        finally:
            failures.clear()  # else errors, this frame and all open decompressors keep each other alive

    with warnings.catch_warnings(action="ignore"):
        found = check_reader(read, tmp_path / "corpus", CONTENTS[kind], count)
    assert found["read"] > 0 or kind in ("bzip2", "xz")  # whose checksums miss nothing


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sound") / "records"
    write_records(make_documents(30, seed=2), make_tokenizer(), directory, shard_tokens=500, held_out=0.2)
    return directory


@pytest.mark.parametrize("count", [40, pytest.param(2_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["train-00000.tokens", "held-out-00000.index", "manifest.json", "vocab.txt"])
def test_damaged_records(records, name, count):
    path = records / name
    sound = path.read_bytes()

    def read(path):
        Records(path.parent).check_hashes()
        content = path.read_bytes()
        assert content == sound or name.endswith((".json", ".txt")), "damage was not seen"

    try:
        found = check_reader(
            read, path, [sound], count, named=None if name.startswith(("train", "held")) else str(records)
        )
    finally:
        path.write_bytes(sound)
    assert found["refused"] > 0.8 * count
