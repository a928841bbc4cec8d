"""Text of data in TensorBoard's Text tab: in tables, answers in their context, entities in their sentence."""

import itertools
import random
import string

import pytest
from helpers.shown_text import HOSTILE, shown_as, shown_cells

from kbert.inspection.markdown import escape, mark_entities, mark_spans, markdown_table, percent


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
    "fraction, shown",
    [(0, "0%"), (1, "100%"), (0.934, "93%"), (0.042, "4.2%"), (0.0999, "10%"), (0.0004, "0.0%"), (float("nan"), "–")],
)
def test_percent(fraction, shown):
    assert percent(fraction) == shown


def shown(markdown):
    return shown_cells(markdown_table(["text"], [["x" + markdown + "x"]]))[1][0][1:-1]


TEXT = "born in London in 1815"


@pytest.mark.parametrize(
    "gold, predicted, expected",
    [
        (None, None, TEXT),
        ((8, 14), None, "born in ⟦**London**⟧ in 1815"),
        (None, (8, 14), "born in ❮*London*❯ in 1815"),
        ((8, 14), (8, 14), "born in ⟦❮***London***❯⟧ in 1815"),
        ((8, 14), (8, 22), "born in ⟦❮***London***⟧ *in 1815*❯"),
        ((8, 14), (18, 22), "born in ⟦**London**⟧ in ❮*1815*❯"),
        ((5, 14), (0, 7), "❮*born* ⟦***in***❯ **London**⟧ in 1815"),
        ((0, 22), (8, 14), "⟦**born in** ❮***London***❯ **in 1815**⟧"),
        ((-1, -1), (-1, -1), TEXT),
        ((8, 14), (90, 99), "born in ⟦**London**⟧ in 1815"),
    ],
)
def test_spans(gold, predicted, expected):
    assert shown(mark_spans(TEXT, gold, predicted)) == expected


def test_contexts_are_cut_around_their_spans():
    text = "a" * 50 + " GOLD " + "b" * 50 + " WRONG " + "c" * 50
    gold, wrong = (51, 55), (107, 112)
    assert text[slice(*gold)] == "GOLD" and text[slice(*wrong)] == "WRONG"
    assert shown(mark_spans(text, gold, wrong, around=4)) == "… aaa ⟦**GOLD**⟧ bbb … bbb ❮*WRONG*❯ ccc …"
    assert shown(mark_spans(text, wrong, None, around=60)).startswith("… aaa GOLD b")
    assert shown(mark_spans(text, around=20)) == "a" * 40 + "…"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_context_is_shown_as_it_is(text):
    """Wherever the spans begin and end: without the marks, its characters are all there."""
    places = range(0, len(text) + 1, max(1, len(text) // 4))
    for (a, b), (c, d) in itertools.product(itertools.combinations(places, 2), repeat=2):
        found = shown(mark_spans(text, (a, b), (c, d)))
        for mark in "⟦⟧❮❯":
            found = found.replace(mark, "")
        assert _bare(found) == _bare(shown_as(text))


def _bare(text):
    return "".join(text.replace("*", "").split())


def test_entities():
    words = ["EU", "rejects", "German", "call"]
    org, misc = (0, 1, "ORG"), (2, 3, "MISC")
    assert shown(mark_entities(words, [misc, org], [org])) == "✓⟦ORG **EU**⟧ rejects ✗⟦MISC *German*⟧ call"
    assert shown(mark_entities(words, [], [])) == "EU rejects German call"
    assert shown(mark_entities(words, [(0, 4, "X")], [(0, 4, "X")])) == "✓⟦X **EU rejects German call**⟧"
    assert shown(mark_entities(["w"] * 100, [(98, 99, "X"), (0, 1, "X")], [])) == "✗⟦X *w*⟧" + " w" * 79 + " …"


def test_words_and_types_with_markup():
    words = [word for text in HOSTILE for word in text.split(" ")]
    entities = [(n, n + 2, word) for n, word in enumerate(words) if n % 3 == 0 and n + 2 <= len(words)]
    found = shown(mark_entities(words, entities, entities[::2]))
    for word in words:
        assert shown_as(word) in found
