"""Answers marked in their context, entities in their sentence."""

import itertools

import pytest
from helpers.shown_text import HOSTILE, shown_as, shown_cells

from kbert.inspection.examples.marked_text import mark_entities, mark_spans
from kbert.inspection.markdown import markdown_table


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
