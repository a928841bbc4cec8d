"""Damaged vocabularies and texts to learn one from, 2,000 of each: read, or a ValueError that names the file."""

import pytest
from helpers.fuzz import check_reader
from helpers.tiny_corpus import VOCABULARY

from kbert.corpus.documents import read_documents
from kbert.text.learn_vocabulary import learn_vocabulary
from kbert.text.vocabulary import check_vocabulary, read_vocabulary

COUNTS = [40, pytest.param(2_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_vocabularies(tmp_path, count):
    contents = ["\n".join(tokens).encode() for tokens in (VOCABULARY, [*VOCABULARY, "é", "##中", "\u2028"])]
    found = check_reader(read_vocabulary, tmp_path / "vocab.txt", contents, count)
    assert found["read"] > 0 and found["refused"] > 0


@pytest.mark.parametrize("count", [20, pytest.param(2_000, marks=pytest.mark.slow)])
def test_a_vocabulary_is_learned_from_damaged_text(tmp_path, count):
    """Learning takes lines as `read_documents` gives them; what it gives is a vocabulary."""

    def learn(path):
        lines = [sentence for document in read_documents(path, "lines") for sentence in document]
        try:
            tokens = learn_vocabulary(lines, 100)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        check_vocabulary(tokens)

    text = "The quick brown fox, the lazy dog and the naïve café 中文 .\n".encode() * 3
    found = check_reader(learn, tmp_path / "corpus.txt", [text], count)
    assert found["read"] > 0
