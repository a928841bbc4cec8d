"""Sentence splitting on what breaks simple rules; nothing of the text is lost."""

import pytest

from kbert.corpus.documents import split_sentences


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
