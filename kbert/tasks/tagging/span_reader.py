"""Your own tagged texts: JSON lines with a text and the spans of its entities."""

import pathlib

from kbert.checks import shown
from kbert.files import parse_json
from kbert.tasks.tagging.tagged_text import TaggedText
from kbert.tasks.text_files import check_characters, read_lines
from kbert.text.words import split_words


def read_span_lines(path) -> TaggedText:
    """Reads JSON lines such as ``{"text": "Peter left Paris.", "spans": [{"start": 0, "end": 5, "type": "PER"}, …]}``.

    Positions are code points of the text, end exclusive; a span may also be written ``[0, 5, "PER"]``. The words are
    those that a tagger splits texts into (`kbert.text.words.split_words`), divided further where a span begins or ends
    inside a word, so that every span consists of whole words. Each line is a document; other keys are ignored; empty
    lines are skipped. Overlapping spans cannot be written as tags and are an error.

    Raises:
        FileNotFoundError: no such file.
        ValueError: invalid JSON, a missing key, a text without words, a span that is empty, outside the text or without
            a type, overlapping spans; the message names file and line.

    Example::

        read_span_lines("mine.jsonl").tags[0]  # ["B-PER", "O", "B-LOC", "O"]
    """
    path = pathlib.Path(path)
    lines, texts, spans = [], [], []
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            text, found = _row(where, line)
            lines.append(number)
            texts.append(text)
            spans.append(_checked(where, text, found))
    if not texts:
        raise ValueError(f"{path}: expected lines with a text and its spans. Received: a file without any")
    words, tags = _words_and_tags([f"{path}, line {number}" for number in lines], texts, spans)
    return TaggedText(words, tags, list(range(len(words))), str(path), lines, one_line=True)


def spans_from_memory(texts, spans) -> TaggedText:
    """Texts in memory and of each its spans, as `read_span_lines` reads them from a file."""
    places = [f"row {row}" for row in range(len(texts))]
    for where, text, found in zip(places, texts, spans, strict=True):
        if not isinstance(text, str) or not isinstance(found, list):
            raise ValueError(
                f"{where}: expected a text and a list of spans. Received: {shown(text)} and {shown(found)}"
            )
    spans = [_checked(*row) for row in zip(places, texts, spans, strict=True)]
    words, tags = _words_and_tags(places, texts, spans)
    return TaggedText(words, tags, list(range(len(words))))


def _words_and_tags(places, texts, spans):
    words, tags = [], []
    _, starts, ends = split_words(texts)
    borders = zip(starts.to_list(), ends.to_list(), strict=True)
    for where, text, found, border in zip(places, texts, spans, borders, strict=True):
        pieces = _cut(list(zip(*border, strict=True)), {end for span in found for end in span[:2]})
        if not pieces:
            raise ValueError(f"{where}: expected a text with a word in it. Received: {shown(text)}")
        words.append([text[start:end] for start, end in pieces])
        tags.append(_tags(where, text, pieces, found))
    return words, tags


def _row(where, line):
    row = parse_json(line, where)
    if not isinstance(row, dict) or not isinstance(row.get("text"), str) or not isinstance(row.get("spans"), list):
        raise ValueError(f'{where}: expected an object with "text" and a list "spans". Received: {shown(line)}')
    return check_characters(row["text"], where), row["spans"]


def _checked(where, text, spans):
    """[(start, end, type), …], ascending."""
    checked = []
    for span in spans:
        start, end, type_ = _parts(where, span)
        if not 0 <= start < end <= len(text):
            raise ValueError(f"{where}: expected a span inside the text, 0 to {len(text)}. Received: {span}")
        checked.append((start, end, type_))
    checked.sort()
    for one, other in zip(checked, checked[1:], strict=False):
        if other[0] < one[1]:
            raise ValueError(f"{where}: spans must not overlap. Received: {one} and {other}")
    return checked


def _parts(where, span):
    if isinstance(span, dict):
        span = [span.get(name) for name in ("start", "end", "type")]
    is_int = [isinstance(n, int) and not isinstance(n, bool) for n in span] if isinstance(span, list) else []
    if is_int[:2] != [True, True] or len(span) != 3 or not isinstance(span[2], str) or not span[2].strip():
        raise ValueError(f'{where}: expected a span {{"start": 0, "end": 5, "type": "PER"}}. Received: {span}')
    return span[0], span[1], check_characters(span[2].strip(), where)


def _cut(places, borders):
    """Words [(start, end), …], divided at the borders inside them."""
    pieces = []
    for start, end in places:
        cuts = sorted({start, end} | {border for border in borders if start < border < end})
        pieces += zip(cuts, cuts[1:], strict=False)
    return pieces


def _tags(where, text, pieces, spans):
    tags = ["O"] * len(pieces)
    for start, end, type_ in spans:
        inside = [n for n, (a, b) in enumerate(pieces) if start <= a and b <= end]
        if not inside:
            raise ValueError(f"{where}: expected a span with a word in it. Received: {shown(text[start:end])}")
        for n in inside:
            tags[n] = f"{'B' if n == inside[0] else 'I'}-{type_}"
    return tags
