"""Text of data as Markdown that shows it as it is, for TensorBoard's Text tab, with spans and entities marked."""

import string
from collections.abc import Iterable, Sequence

_MARKUP = set(string.punctuation)
_TURNING = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}  # overrides of the direction would turn the page around
_GOLD, _PREDICTED = ("⟦", "⟧"), ("❮", "❯")
_AROUND = 80  # characters of context beside a span
_MOST_WORDS = 80


def escape(text: str, limit: int | None = None) -> str:
    """Text whose characters show as they are and mean nothing: punctuation as character references.

    Python-Markdown knows few backslash escapes, and TensorBoard allows few tags, none for strikethrough. White space
    becomes one space, since a cell of a table is one line. Control characters become their pictures. After `limit`
    characters the rest becomes "…".
    """
    text = " ".join(text.split())
    is_cut = limit is not None and len(text) > limit
    return "".join(map(_escaped, text[:limit].rstrip() if is_cut else text)) + ("…" if is_cut else "")


def _escaped(char):
    code = ord(char)
    if char in _MARKUP:
        return f"&#{code};"
    if code < 32 or code == 127:
        return chr(0x2421 if code == 127 else 0x2400 + code)
    return "\ufffd" if code in _TURNING or 0xD800 <= code < 0xE000 else char


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def percent(fraction: float) -> str:
    """A fraction as a percentage of two digits: "93%", "4.2%", "–" for NaN."""
    if fraction != fraction:
        return "–"
    return f"{100 * fraction:.0f}%" if round(fraction, 3) >= 0.1 or not fraction else f"{100 * fraction:.1f}%"


def mark_spans(
    text: str, gold: tuple[int, int] | None = None, predicted: tuple[int, int] | None = None, around: int = _AROUND
) -> str:
    """The text around two spans as Markdown: the gold one bold in ⟦ ⟧, the predicted one in italics in ❮ ❯.

    Spans are (start, end) in code points, end exclusive, or None. Beyond `around` characters on each side of a span,
    the text becomes "…".
    """
    spans = {_GOLD: gold, _PREDICTED: predicted}
    spans = {marks: span for marks, span in spans.items() if span is not None and 0 <= span[0] < span[1] <= len(text)}
    if not spans:
        return escape(text, 2 * around)
    windows = []
    for start, end in sorted(spans.values()):
        start = max(0, start - around)
        end = min(len(text), end + around)
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
    for place, following in zip(borders, [*borders[1:], end], strict=True):
        pieces += [marks[1] for marks, span in reversed(spans.items()) if span[1] == place]
        pieces += [marks[0] for marks, span in spans.items() if span[0] == place]
        open_ = {marks for marks, span in spans.items() if span[0] <= place < span[1]}
        pieces.append(_styled(text[place:following], 2 * (_GOLD in open_) + (_PREDICTED in open_)))
    return "".join(pieces)


def _styled(text, stars):
    """Text with emphasis, which in Markdown must not begin or end with white space."""
    inner = escape(text)
    before = " " * text[:1].isspace()
    after = " " * text[-1:].isspace()
    return f"{before}{'*' * stars}{inner}{'*' * stars}{after}" if inner else " " * bool(text)


def mark_entities(words: Sequence[str], entities: Sequence[tuple[int, int, str]], matched: Iterable[tuple]) -> str:
    """The first 80 words of a sentence as Markdown: entities in ⟦ ⟧ after their type.

    Entities are (first word, last word + 1, type). ✓ and bold mark the ones that gold and prediction share (`matched`),
    ✗ and italics the others.
    """
    matched = set(matched)
    shown = words[:_MOST_WORDS]
    pieces = []
    place = 0
    for start, end, type_ in sorted(entities):
        if end > len(shown):
            break
        mark, stars = ("✓", "**") if (start, end, type_) in matched else ("✗", "*")
        inner = " ".join(map(escape, shown[start:end]))
        pieces += [*map(escape, shown[place:start]), f"{mark}⟦{escape(type_)} {stars}{inner}{stars}⟧"]
        place = end
    return " ".join([*pieces, *map(escape, shown[place:])]) + (" …" if len(words) > len(shown) else "")
