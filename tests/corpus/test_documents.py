"""Files of prose to documents: formats, compression, Parquet, what is damaged or no text."""

import bz2
import gzip
import io
import lzma
import sys
import tarfile
import zipfile

import pytest
from helpers.wrong_values import wrong_inputs

from kbert.corpus.corpus_files import find_files
from kbert.corpus.documents import detect_format, prose_sentences, read_documents, split_sentences

LINES = "A first line .\nA second one .\n\n\n\nAnother document .\n"
DOCUMENTS = [["A first line .", "A second one ."], ["Another document ."]]
WRAPPED = """THE TITLE

Mr. Smith walked slowly over the bridge, which was old and very
narrow, and looked down. He saw nothing. The river, said St.
Peter, was high that year.

"What is it?" he asked.
"""
WRAPPED_SENTENCES = [
    "THE TITLE",
    "Mr. Smith walked slowly over the bridge, which was old and very narrow, and looked down.",
    "He saw nothing.",
    "The river, said St. Peter, was high that year.",
    '"What is it?" he asked.',
]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_lines(tmp_path):
    path = write(tmp_path / "a.txt", LINES)
    assert list(read_documents(path)) == DOCUMENTS
    assert list(read_documents([str(path)], "lines")) == DOCUMENTS


def test_a_document_ends_with_its_file(tmp_path):
    write(tmp_path / "b.txt", "Third .")
    write(tmp_path / "a.txt", LINES)
    assert list(read_documents(str(tmp_path / "*.txt"))) == [*DOCUMENTS, ["Third ."]]


def test_byte_order_mark_and_dos_line_ends(tmp_path):
    path = write(tmp_path / "a.txt", b"\xef\xbb\xbf" + LINES.replace("\n", "\r\n").encode())
    assert list(read_documents(path)) == DOCUMENTS


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed(tmp_path, compress):
    assert list(read_documents(write(tmp_path / "named_anything", compress(LINES.encode())))) == DOCUMENTS


def test_archives(tmp_path):
    for mode, name in (("w", "a.tar"), ("w:gz", "a.tgz")):
        with tarfile.open(tmp_path / name, mode) as archive:
            for member, text in (("x/1.txt", LINES), ("x/2.txt", "Third .")):
                info = tarfile.TarInfo(member)
                info.size = len(text)
                archive.addfile(info, io.BytesIO(text.encode()))
        assert list(read_documents(tmp_path / name)) == [*DOCUMENTS, ["Third ."]]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("1.txt", LINES)
        archive.writestr("2.txt", "Third .")
    assert list(read_documents(tmp_path / "a.zip")) == [*DOCUMENTS, ["Third ."]]


def test_globs_recursive_sorted_and_each_file_once(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    inner, outer = write(tmp_path / "sub" / "1.txt", "x"), write(tmp_path / "2.txt", "y")
    assert find_files([str(tmp_path / "**" / "*.txt"), outer]) == sorted([str(inner), str(outer)])
    monkeypatch.chdir(tmp_path)
    assert find_files(["2.txt", "./2.txt", outer, "sub/../*.txt"]) == ["2.txt"]
    assert find_files("**/*.txt", output=tmp_path / "sub") == ["2.txt"]
    with pytest.raises(ValueError, match="No file matches 'sub/1.txt'"):
        find_files(["2.txt", "sub/1.txt"], output="sub")


def test_a_file_whose_name_looks_like_a_pattern(tmp_path):
    path = write(tmp_path / "a[1].txt", LINES)
    assert list(read_documents(path)) == DOCUMENTS


def test_dirty_text(tmp_path):
    path = write(tmp_path / "a.txt", b"caf\xe9 \xff\xfe ok .\nnul\x00in\x00side .\n\x00\n")
    assert list(read_documents(path, "lines")) == [["caf\ufffd \ufffd\ufffd ok .", "nul\x00in\x00side .", "\x00"]]


def test_one_megabyte_line(tmp_path):
    path = write(tmp_path / "a.txt", "word " * 200_000 + "\nend .\n")
    [[long, end]] = read_documents(path, "lines")
    assert len(long) == 999_999 and end == "end ."
    assert sum(map(len, next(read_documents(path, "prose")))) > 999_000


def test_other_line_separators_stay_in_the_line(tmp_path):
    path = write(tmp_path / "a.txt", "one\u2028two\x0bthree\x85four\rfive .\nsix .\n")
    assert list(read_documents(path, "lines")) == [["one\u2028two\x0bthree\x85four\rfive .", "six ."]]


def test_wrapped_prose(tmp_path):
    text = WRAPPED.replace("\n", "\r\n")
    path = write(tmp_path / "a.txt", text)
    assert list(read_documents(path, "prose")) == [WRAPPED_SENTENCES] == [prose_sentences(text)]


def test_prose_of_one_paragraph_a_line(tmp_path):
    sentence = "It was a long and quiet evening in the old house by the river, and nobody spoke to anybody. "
    paragraph = 2 * sentence
    path = write(tmp_path / "a.txt", f"CHAPTER I.\n{paragraph}\nA heading without a stop\n{paragraph}\n")
    [sentences] = read_documents(path, "prose")
    assert len(sentences) == 6 and sentences[0] == "CHAPTER I." and sentences[3] == "A heading without a stop"


def test_prose_without_an_end_becomes_several_documents(tmp_path, monkeypatch):
    monkeypatch.setattr("kbert.corpus.documents._LONGEST_DOCUMENT", 4)
    path = write(tmp_path / "a.txt", "One is here. Two is here.\n\n" * 5)
    assert [len(document) for document in read_documents(path, "prose")] == [4, 4, 2]


WIKI = """<doc id="12" url="https://en.wikipedia.org/wiki?curid=12" title="Anarchism">
Anarchism

Anarchism is a philosophy.<br>It has a history; e.g. Proudhon wrote &quot;What is Property?&quot; in 1840.

Early life and education

History.
* An item of a list is dropped.
Section::::Notes and more.
The ports of Alabama are many. They are, from north to south:
1. Mobile Bay
<poem>A line of verse,
</poem>
</doc>
<doc id="13" url="u" title="Empty">
Empty

</doc>
<doc id="14" url="u" title="T">
T

Full.
They were the first of many to come.
</doc>
"""


def test_wikiextractor(tmp_path):
    path = write(tmp_path / "wiki_00.gz", gzip.compress(WIKI.encode()))
    assert list(read_documents(path)) == [
        [
            "Anarchism is a philosophy.",
            'It has a history; e.g. Proudhon wrote "What is Property?" in 1840.',
            "The ports of Alabama are many.",
        ],
        ["They were the first of many to come."],
    ]


def test_detect_format():
    assert detect_format(WIKI.split("\n")) == "wikiextractor"
    assert detect_format(["", " ", *WIKI.split("\n")]) == "wikiextractor"
    assert detect_format(LINES.split("\n")) == "lines"
    assert detect_format(WRAPPED.split("\n")) == "prose"
    assert detect_format(["He came. He saw. He won.", "", "Then he left. It was over."]) == "prose"
    assert detect_format(["no punctuation at all", "but one sentence a line", "or so it seems", "", "x"]) == "lines"
    assert detect_format([]) == "lines"


def logged(caplog):
    return [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "kbert"]


def test_formats_are_told_once(tmp_path, caplog):
    for number in range(3):
        write(tmp_path / f"{number}.txt", WRAPPED if number else LINES)
    for _ in range(2):
        assert len(list(read_documents(tmp_path / "*.txt"))) == 4
    assert logged(caplog) == [("INFO", "3 texts (1 as lines, 2 as prose): 4 documents")]


def test_most_documents_come_from_few_files(tmp_path, caplog):
    """Manual pages of which some were taken for lines: hundreds of documents of a sentence or two."""
    for number in range(20):
        write(tmp_path / f"{number:02d}.txt", WRAPPED if number else "one\n\n" * 30)
    list(read_documents(tmp_path / "*.txt"))
    [(_, told), (level, warning)] = logged(caplog)
    assert told == "20 texts (1 as lines, 19 as prose): 49 documents" and level == "WARNING"
    assert warning.startswith("2 of 20 texts have 63.3% of the documents; the most: ") and "00.txt as lines" in warning


def test_errors_before_reading(tmp_path):
    write(tmp_path / "empty.txt", b"")
    write(tmp_path / "utf16.txt", LINES.encode("utf-16"))
    wrong_inputs(
        read_documents,  # not even iterated over
        (str(tmp_path / "none*.txt"), "No file matches .*none"),
        (str(tmp_path / "utf17.txt"), "No file matches .*utf17.txt'.* there is: utf16.txt"),
        (tmp_path, "is a directory"),
        ([], "at least one path"),
        (tmp_path / "empty.txt", "empty.txt have no content"),
        (write(tmp_path / "bad.gz", b"\x1f\x8b not gzip"), "Cannot read .*bad.gz"),
    )
    with pytest.raises(ValueError, match="Received: 'csv'"):
        read_documents(tmp_path / "utf16.txt", "csv")
    wrong_inputs(
        lambda path: list(read_documents(path)),
        (tmp_path / "utf16.txt", "utf16.txt is UTF-16"),
        (write(tmp_path / "blank.txt", b" \n\r\n\t\n"), "no sentence.*blank.txt"),
    )


def test_damaged_in_the_middle(tmp_path):
    """What comes before the damage is given while the rest is not read yet; then the error names the file."""
    whole = gzip.compress(b"".join(b"line %d .\n\n" % i for i in range(300_000)))
    documents = read_documents(write(tmp_path / "cut.gz", whole[: len(whole) // 2]), "lines")
    assert next(documents) == ["line 0 ."]
    with pytest.raises(ValueError, match="Cannot read .*cut.gz"):
        list(documents)


def test_real_wikipedia(shared_data):
    documents = read_documents(shared_data / "wikipedia" / "wiki-00003-of-00020.gz")
    first = [next(documents) for _ in range(40)]
    sentences = [sentence for document in first for sentence in document]
    assert len(sentences) > 2000
    assert not any("<doc" in s or "</doc" in s or "\n" in s for s in sentences)
    assert all(s[-1] in ".!?…\"')]”’»" for s in sentences)
    assert sum(len(s) for s in sentences) / len(sentences) > 80


@pytest.mark.slow  # prose: test_wrapped_prose; archives: test_archives
def test_real_novels(shared_data):
    documents = list(read_documents(shared_data / "novels" / "novels-1.tar.gz"))
    assert len(documents) > 10 and all(1500 < len(document) <= 25_000 for document in documents)
    sentences = [sentence for document in documents for sentence in document]
    assert not any("\r" in s or "\ufeff" in s for s in sentences)
    assert 40 < sum(map(len, sentences)) / len(sentences) < 160  # neither lines nor paragraphs


TEXTS = ["Mr. Smith came in. He sat down.", None, "", "Another text.\nIts second line."]


@pytest.mark.parity
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


@pytest.mark.parametrize(
    "sentences",
    [
        ["Mr. Smith went to Washington, D.C. on Jan. 5, 2011.", "He met Dr. J. R. Jones there."],
        ["The U.S. Army was there.", "It cost $3.5 million.", "Was it?", "Yes!"],
        ['He said "Go away." and left.', '"Why?" he asked.', "Nobody came... until now."],
        ["Apples, i.e. fruit, vs. meat etc. are eaten.", "See Fig. 3 and No. 5 at www.example.org today."],
        ["St. John came.", "J. R. R. Tolkien wrote it at 5 p.m. on Monday.", "He earned a Ph.D. in 1990."],
        ["“Hello,” she said.", "Mrs. Grey nodded."],
    ],
)
def test_english(sentences):
    assert split_sentences(" ".join(sentences)) == sentences


def test_line_ends_are_spaces():
    assert split_sentences("He met\r\nMr.\nSmith.  \n\n Then\tleft.\n") == ["He met Mr. Smith.", "Then left."]


def test_other_languages():
    assert split_sentences("これは文です。次の文。", "ja") == ["これは文です。", "次の文。"]
    assert split_sentences("Das ist z.B. gut. Ende.", "de") == ["Das ist z.B. gut.", "Ende."]


@pytest.mark.parametrize("text", ["", " \n\t", "."])
def test_nothing_to_split(text):
    assert split_sentences(text) == ([text] if text == "." else [])


def test_nothing_is_lost_from_dirty_or_huge_text():
    for text in ("a\x00b. C\ufffd d! É\u0301? x", "word " * 200_000, "a" * 1_000_000, "Aa bb. " * 20_000):
        assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
