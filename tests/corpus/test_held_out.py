"""Documents that are held out, and what is asked for when none is."""

import re
import subprocess

import pytest
from helpers.tiny_corpus import make_documents, make_tokenizer

from kbert.corpus.documents import read_documents
from kbert.corpus.held_out import check_held_out
from kbert.corpus.write_records import write_records
from kbert.pretraining.record_pools import check_shards


@pytest.mark.parametrize("seed", range(5))
def test_the_advised_share_is_enough(seed):
    few = make_documents(4, seed)
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
            check_held_out(documents, fraction)
    if copies == 1:
        one = write_records(documents, make_tokenizer(), tmp_path / "records", held_out=1e-6)
        with pytest.raises(ValueError, match=message):
            check_shards(one, True)


def test_a_novel_split_at_its_chapters(tmp_path):
    """As docs/corpora.md does it."""
    prose = "Nobody had seen him, and nobody asked. He went down to the river alone. The old bridge was still there. "
    text = "".join(f"CHAPTER {number}.\n\n{prose * number}\n\n" for number in range(1, 13))
    (tmp_path / "novel.txt").write_text(text)
    with pytest.raises(ValueError, match="Received: one document. A file of prose is one document"):
        check_held_out(read_documents(tmp_path / "novel.txt"), 0.2)
    options = ["--quiet", "--elide-empty-files", "--prefix", "chapter-", "novel.txt", "/^CHAPTER/", "{*}"]
    subprocess.run(["csplit", *options], cwd=tmp_path, check=True)
    chapters = list(read_documents(str(tmp_path / "chapter-*")))
    assert [document[0] for document in chapters] == [f"CHAPTER {n}." for n in range(1, 13)]
    check_held_out(chapters, 0.2)
