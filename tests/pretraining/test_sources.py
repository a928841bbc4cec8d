"""A corpus is opened and read once before the first step; what is asked for when no document is held out."""

import collections
import itertools
import pathlib
import re
import subprocess

import pytest
from helpers.compare import assert_arrays_equal
from helpers.pretraining_batches import B, P, S
from helpers.tiny_corpus import make_documents, make_tokenizer, write_lines

import kbert
from kbert.corpus.documents import DocumentList
from kbert.corpus.records import Records
from kbert.corpus.write_records import write_records
from kbert.pretraining import sources
from kbert.pretraining.dataset import pretraining_dataset
from kbert.pretraining.dataset_statistics import token_counts
from kbert.pretraining.real_fractions import real_fractions
from kbert.pretraining.run import corpus_data
from kbert.pretraining.sources import TextSource, check_held_out


@pytest.mark.parametrize("seed", range(5))
def test_the_advised_share_is_enough(seed):
    few = DocumentList(make_documents(4, seed))
    with pytest.raises(ValueError, match=r"None of 4 documents is held out at held_out=1e-06\. ") as error:
        check_held_out(few, 1e-6)
    fraction = re.search(r"such as (0\.\d+) \(--held-out \1\)", str(error.value))[1]
    check_held_out(few, float(fraction))


@pytest.mark.parametrize("copies, received", [(1, "one document"), (3, "3 documents with the same text")])
def test_one_document_cannot_be_divided(tmp_path, copies, received):
    """Neither a larger nor a smaller fraction helps."""
    documents = make_documents(1) * copies
    message = f"Received: {received}. A file of prose is one document: split it into several files, such as one for"
    for fraction in (1e-6, 0.2, 1 - 1e-6):
        with pytest.raises(ValueError, match=message):
            check_held_out(DocumentList(documents), fraction)
    if copies == 1:
        one = write_records(documents, make_tokenizer(), tmp_path / "records", held_out=1e-6)
        with pytest.raises(ValueError, match=message):
            check_held_out(one, None)


def test_a_novel_split_at_its_chapters(tmp_path):
    """As docs/corpora.md does it."""
    prose = "Nobody had seen him, and nobody asked. He went down to the river alone. The old bridge was still there. "
    text = "".join(f"CHAPTER {number}.\n\n{prose * number}\n\n" for number in range(1, 13))
    (tmp_path / "novel.txt").write_text(text)
    with pytest.raises(ValueError, match="Received: one document. A file of prose is one document"):
        check_held_out(tmp_path / "novel.txt", 0.2)
    options = ["--quiet", "--elide-empty-files", "--prefix", "chapter-", "novel.txt", "/^CHAPTER/", "{*}"]
    subprocess.run(["csplit", *options], cwd=tmp_path, check=True)
    source = TextSource(str(tmp_path / "chapter-*"))
    assert [document[0] for document in source.documents(source.files)] == [f"CHAPTER {n}." for n in range(1, 13)]
    check_held_out(source, 0.2)


def test_records_have_held_out_documents_of_their_own(records, tokenizer):
    for name, function in (
        ("pretraining_dataset", lambda **fraction: pretraining_dataset(records, tokenizer, batch_size=1, **fraction)),
        ("token_counts", lambda **fraction: token_counts(records, tokenizer, **fraction)),
        ("real_fractions", lambda **fraction: real_fractions(records, tokenizer, **fraction)),
        ("pretrain", lambda **fraction: kbert.pretrain(records, steps=1, **fraction)),
    ):
        with pytest.raises(ValueError, match=f"^{name}: records have held-out documents of their own.*: held_out=0.2"):
            function(held_out=0.2)
        with pytest.raises(ValueError, match=rf"^{name}: `held_out` must be a number in \[0, 1\).*\. Received: '0.2'"):
            function(held_out="0.2")


@pytest.mark.parametrize("option", [{"format": "lines"}, {"language": "de"}, {"pool_sentences": 9}])
def test_how_text_is_read_is_for_text(records, tokenizer, option):
    (name,) = option
    made = DocumentList(make_documents(4))
    in_memory = [] if name == "pool_sentences" else [(made, "documents in memory")]
    for source, what in [(records, "records"), *in_memory]:
        message = f"{what} are no files of text and take no `{name}`. Received: {name}={option[name]!r}"
        with pytest.raises(ValueError, match=f"^pretraining_dataset: {message}"):
            pretraining_dataset(source, tokenizer, batch_size=1, **option)
    pretraining_dataset(records, tokenizer, batch_size=1, format="auto", language="en")


def test_pretraining_says_so_before_it_makes_a_model(monkeypatch):
    monkeypatch.setattr(corpus_data, "starting_model", lambda *_: pytest.fail("the check comes first"))
    with pytest.raises(ValueError, match="None of 4 documents is held out"):
        kbert.pretrain(make_documents(4), vocabulary=make_tokenizer(), steps=1, held_out=1e-6)


@pytest.fixture
def reads(monkeypatch):
    """How often each file was read from its beginning."""
    counts = collections.Counter()
    read = sources.file_documents

    def counted(path, *options):
        counts[pathlib.Path(path).name] += 1
        yield from read(path, *options)

    monkeypatch.setattr(sources, "file_documents", counted)
    return counts


@pytest.fixture
def texts(tmp_path):
    for n in range(2):
        write_lines(tmp_path / f"{n}.txt", make_documents(30, seed=n))
    return str(tmp_path / "*.txt")


# Rows as in other files, which share their graphs: test_dataset.py, test_packed_rows.py.
PLAIN_ROWS, PACKED_ROWS = [(S, 1.0, B, P)], [(90, 1.0, B, 14)]
TWO_PHASES = [(16, 0.5), (24, 0.5)]


def pretrain(source, phases, **options):
    options |= {"steps": len(phases), "batch_size": 4, "evaluation_batches": 1}
    return kbert.pretrain(source, phases=phases, **options)


@pytest.mark.slow  # test_a_run_opens_its_records_once; test_readers_of_one_source_have_the_same_documents
@pytest.mark.usefixtures("eagerly")
def test_phases_read_what_is_not_kept_of_the_head_again(texts, reads, monkeypatch):
    options = {"vocabulary": make_tokenizer(), "held_out": 0.2}
    run = pretrain(texts, TWO_PHASES, **options)
    assert reads == {"0.txt": 1, "1.txt": 1}
    monkeypatch.setattr(sources, "_HEAD", 500)
    again = pretrain(texts, TWO_PHASES, **options)
    assert reads["0.txt"] > 5  # what is not kept is read again, and is the same
    assert_arrays_equal(run.model.get_weights(), again.model.get_weights())
    assert run.metrics["unigram"] == again.metrics["unigram"]


@pytest.mark.parametrize(
    "phases, packed", [(PLAIN_ROWS, False), pytest.param(TWO_PHASES, None, marks=pytest.mark.slow)]
)
@pytest.mark.usefixtures("eagerly")
def test_a_run_opens_its_records_once(records, monkeypatch, phases, packed):
    opened = []
    initialise = Records.__init__

    def counted(self, directory, **options):
        opened.append(directory)
        initialise(self, directory, **options)

    monkeypatch.setattr(Records, "__init__", counted)
    pretrain(records, phases, packed=packed)
    assert opened == [records]


@pytest.mark.parametrize("head", [0, 300, 10**6])
def test_readers_of_one_source_have_the_same_documents(texts, reads, monkeypatch, head):
    monkeypatch.setattr(sources, "_HEAD", head)
    source = TextSource(texts)
    expected = [document for n in range(2) for document in make_documents(30, seed=n)]
    assert next(source.documents(source.files)) == expected[0]
    for one, other in itertools.zip_longest(source.documents(source.files), source.documents(source.files)):
        assert one == other
    assert list(source.documents(source.files)) == expected
    assert list(source.documents(source.files[::-1])) == expected[30:] + expected[:30]
    assert (reads["0.txt"] == 1) == (head == 10**6)


def test_a_damaged_file_is_an_error_for_every_reader(tmp_path):
    path = write_lines(tmp_path / "a.txt", make_documents(800))  # more than is looked at when files are found
    with open(path, "ab") as file:
        file.write(b"\xff\xfe" * 100_000)
    source = TextSource(str(path))
    for _ in range(2):
        with pytest.raises(ValueError, match="a.txt: expected text in UTF-8"):
            list(source.documents(source.files))
