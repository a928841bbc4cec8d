"""Text of data as Markdown that shows it as it is, for TensorBoard's Text tab."""

import string
from collections.abc import Iterable, Sequence

_MARKUP = set(string.punctuation)
_TURNING = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}  # overrides of the direction would turn the page around


def escape(text: str, limit: int | None = None) -> str:
    """Text whose characters show as they are and mean nothing: punctuation as character references.

    Python-Markdown knows few backslash escapes, and TensorBoard allows few tags, none for
    strikethrough. White space becomes one space, since a cell of a table is one line. Control
    characters become their pictures. After `limit` characters the rest becomes "…".
    """
    text = " ".join(text.split())
    is_cut = limit is not None and len(text) > limit
    return "".join(map(_escaped, text[:limit].rstrip() if is_cut else text)) + ("…" if is_cut else "")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def percent(share: float) -> str:
    """A share as a percentage of two digits: "93%", "4.2%", "–" for NaN."""
    if share != share:
        return "–"
    return f"{100 * share:.0f}%" if round(share, 3) >= 0.1 or not share else f"{100 * share:.1f}%"


def _escaped(char):
    code = ord(char)
    if char in _MARKUP:
        return f"&#{code};"
    if code < 32 or code == 127:
        return chr(0x2421 if code == 127 else 0x2400 + code)
    return "\ufffd" if code in _TURNING or 0xD800 <= code < 0xE000 else char
