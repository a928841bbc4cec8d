"""Text of data in tables of TensorBoard's Text tab."""

import random
import string

import pytest
from helpers.shown_text import HOSTILE, shown_as, shown_cells

from kbert.inspection.markdown import escape, markdown_table, percent


def test_text_is_shown_as_it_is():
    rng = random.Random(3)
    alphabet = string.punctuation + "ab1 \n\t\x00\x02\x03\x1b\u2028é中🙂"
    texts = [*HOSTILE, *("".join(rng.choices(alphabet, k=20)) for _ in range(300))]
    page = markdown_table(["text", "again"], [["a" + escape(text), f"**b{escape(text)}**"] for text in texts])
    expected = [["a" + shown_as(text), f"**b{shown_as(text)}**"] for text in texts]
    assert shown_cells(page) == [["text", "again"], *expected]


def test_it_is_cut_in_characters():
    assert escape("one two  three", limit=8) == "one two…" and escape("one two", limit=7) == "one two"
    assert escape("a*b", limit=2) == "a&#42;…"  # a reference is one character


@pytest.mark.parametrize(
    "share, shown",
    [(0, "0%"), (1, "100%"), (0.934, "93%"), (0.042, "4.2%"), (0.0999, "10%"), (0.0004, "0.0%"), (float("nan"), "–")],
)
def test_percent(share, shown):
    assert percent(share) == shown
