"""Corpora in Parquet files: a document for each row, streamed; what is damaged or no text is named."""

import sys

import pytest

from kbert.corpus.documents import prose_sentences, read_documents

TEXTS = ["Mr. Smith came in. He sat down.", None, "", "Another text.\nIts second line."]


def test_each_row_is_a_document(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from kbert.corpus import documents

    monkeypatch.setattr(documents, "_PARQUET_ROWS", 2)
    path = tmp_path / "one.parquet"
    parquet.write_table(pyarrow.table({"text": TEXTS, "id": [1, 2, 3, 4]}), path)
    expected = [prose_sentences(text) for text in TEXTS if text]
    assert expected[0] == ["Mr. Smith came in.", "He sat down."]
    assert list(read_documents(path)) == expected
    (tmp_path / "two.txt").write_text("One sentence.\n")
    assert list(read_documents([path, tmp_path / "two.txt"])) == [*expected, ["One sentence."]]
    assert list(read_documents(path, "lines")) == [[TEXTS[0]], TEXTS[3].split("\n")]
    content = path.read_bytes()
    for damaged in (content[:-20], content[:4] + bytes(60) + content[64:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=str(path)):
            list(read_documents(path))
    parquet.write_table(pyarrow.table({"body": ["x"]}), path)
    with pytest.raises(ValueError, match=r"expected a column `text`.* Received: the columns \['body'\]"):
        list(read_documents(path))


def test_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "one.parquet").write_bytes(b"PAR1....")
    with pytest.raises(ImportError, match="one.parquet is a Parquet file, which needs pyarrow: pip install pyarrow"):
        list(read_documents(tmp_path / "one.parquet"))
