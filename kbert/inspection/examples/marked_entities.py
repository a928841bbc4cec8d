"""Sentences with their entities marked."""

from collections.abc import Iterable, Sequence

from kbert.inspection.markdown import escape

_MOST_WORDS = 80


def mark_entities(words: Sequence[str], entities: Sequence[tuple[int, int, str]], matched: Iterable[tuple]) -> str:
    """A sentence as Markdown: entities in ⟦ ⟧ after their type, ✓ before those that are matched and ✗ before others.

    Args:
        words: of the sentence; only the first 80 are shown.
        entities: (first word, last word + 1, type) of each.
        matched: those that gold and prediction share: bold, the others in italics.

    Example::

        mark_entities(["EU", "rejects"], [(0, 1, "ORG")], [(0, 1, "ORG")])  # "✓⟦ORG **EU**⟧ rejects"
    """
    matched, pieces, place, shown = set(matched), [], 0, words[:_MOST_WORDS]
    for start, end, type_ in sorted(entities):
        if end > len(shown):
            break
        mark, stars = ("✓", "**") if (start, end, type_) in matched else ("✗", "*")
        inner = " ".join(map(escape, shown[start:end]))
        pieces += [*map(escape, shown[place:start]), f"{mark}⟦{escape(type_)} {stars}{inner}{stars}⟧"]
        place = end
    return " ".join([*pieces, *map(escape, shown[place:])]) + (" …" if len(words) > len(shown) else "")
