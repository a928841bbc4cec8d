"""Texts as Markdown in which spans or entities are marked."""

from collections.abc import Iterable, Sequence

from kbert.inspection.markdown import escape

GOLD, PREDICTED = ("⟦", "⟧"), ("❮", "❯")
_AROUND = 80  # characters of context beside a span


def mark_spans(text: str, gold=None, predicted=None, around: int = _AROUND) -> str:
    """The text around two spans as Markdown: the gold one bold in ⟦ ⟧, the predicted one in italics in ❮ ❯.

    Spans are (start, end) in code points, end exclusive, or None. Beyond `around` characters on
    each side of a span, the text becomes "…".
    """
    spans = {GOLD: gold, PREDICTED: predicted}
    spans = {marks: span for marks, span in spans.items() if span is not None and 0 <= span[0] < span[1] <= len(text)}
    if not spans:
        return escape(text, 2 * around)
    windows = []
    for start, end in sorted(spans.values()):
        start, end = max(0, start - around), min(len(text), end + around)
        if windows and start <= windows[-1][1]:
            windows[-1][1] = max(windows[-1][1], end)
        else:
            windows.append([start, end])
    shown = " … ".join(_window(text, start, end, spans).strip() for start, end in windows)
    return ("… " if windows[0][0] else "") + shown + (" …" if windows[-1][1] < len(text) else "")


def _window(text, start, end, spans):
    """Text between the borders of spans: brackets that open or close there, then text in its style."""
    borders = sorted({start, end, *(place for span in spans.values() for place in span if start <= place <= end)})
    pieces = []
    for n, place in enumerate(borders):
        pieces += [marks[1] for marks, span in reversed(spans.items()) if span[1] == place]
        pieces += [marks[0] for marks, span in spans.items() if span[0] == place]
        if n + 1 < len(borders):
            open_ = {marks for marks, span in spans.items() if span[0] <= place < span[1]}
            pieces.append(_styled(text[place : borders[n + 1]], 2 * (GOLD in open_) + (PREDICTED in open_)))
    return "".join(pieces)


def _styled(text, stars):
    """Text with emphasis, which in Markdown must not begin or end with white space."""
    inner = escape(text)
    before, after = " " * text[:1].isspace(), " " * text[-1:].isspace()
    return f"{before}{'*' * stars}{inner}{'*' * stars}{after}" if inner else " " * bool(text)


_MOST_WORDS = 80


def mark_entities(words: Sequence[str], entities: Sequence[tuple[int, int, str]], matched: Iterable[tuple]) -> str:
    """The first 80 words of a sentence as Markdown: entities in ⟦ ⟧ after their type.

    Entities are (first word, last word + 1, type). ✓ and bold mark the ones that gold and
    prediction share (`matched`), ✗ and italics the others.
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
