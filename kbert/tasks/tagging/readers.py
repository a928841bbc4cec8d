"""Tagged files → tagged words: CoNLL columns, and JSON lines with the spans of entities."""

import itertools
import pathlib
import re

from kbert.checks import check_path, is_missing, shown
from kbert.files import parse_json
from kbert.tasks.table import JSON_LINES
from kbert.tasks.tagging.tag_scheme import convert_sentences
from kbert.tasks.tagging.tagged_text import TaggedText
from kbert.tasks.text_files import check_characters, read_lines


def read_span_lines(path) -> TaggedText:
    """Reads JSON lines such as ``{"text": "Peter left Paris.", "spans": [{"start": 0, "end": 5, "type": "PER"}, …]}``.

    Positions are code points of the text, end exclusive. A span may also be written ``[0, 5, "PER"]``. The words are
    split by `kbert.text.words.split_words`, as a tagger does, and divided further where a span begins or ends inside a
    word, so that every span consists of whole words. Each line is a document. Other keys are ignored, and empty lines
    are skipped. Overlapping spans cannot be written as tags and are an error.
    """
    path = pathlib.Path(path)
    lines = []
    texts = []
    spans = []
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
    """Texts in memory and the spans of each, as `read_span_lines` reads them from a file."""
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
    from kbert.text.words import split_words  # not above: it loads TensorFlow

    words = []
    tags = []
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


DOCUMENT_START = "-DOCSTART-"


def read_tagged(path, *, tag_column: int = -1, scheme: str | None = None) -> TaggedText:
    """A tagged file of either kind: .jsonl and .ndjson by `read_span_lines`, all others by `read_conll`."""
    if check_path(path, "read: `path`").suffix.lower() in JSON_LINES:
        return read_span_lines(path)
    return read_conll(path, tag_column=tag_column, scheme=scheme)


def read_conll(path, *, tag_column: int = -1, scheme: str | None = None) -> TaggedText:
    """Reads a file in CoNLL columns: one word per line, an empty line after every sentence.

    The word is the first column and the tag the one with the index `tag_column`, negative from the end. Columns are
    separated by tabs or, in lines without one, by spaces. The file is UTF-8, with or without byte order mark, and lines
    end in LF or CRLF. A line that begins with ``-DOCSTART-`` starts a document. In a file without such lines every
    sentence is its own document.

    Tags in the `scheme` "iob1", "iob2", "bioes" or "bilou" are converted to IOB2 exactly. None: it is recognised from
    the whole file. A sequence that breaks its scheme is an error and is not repaired.

    Source: Tjong Kim Sang and De Meulder 2003 (CoNLL-2003).
    """
    path = pathlib.Path(path)
    words = []
    tags = []
    documents = []
    lines = []
    for document, sentence in _sentences(path, tag_column):
        words.append([word for _, word, _ in sentence])
        tags.append([tag for _, _, tag in sentence])
        documents.append(document)
        lines.append(sentence[0][0])
    if not words:
        raise ValueError(f"{path}: expected words in columns. Received: a file without any")
    places = [[f"{path}, line {first + n}" for n in range(len(some))] for first, some in zip(lines, tags, strict=True)]
    tags = convert_sentences(places, tags, scheme)
    if len(set(documents)) == 1 and documents[0] == 0:  # no line said where one begins
        documents = list(range(len(words)))
    return TaggedText(words, tags, documents, str(path), lines)


def tagged_from_memory(words, tags, documents=None, scheme: str | None = None) -> TaggedText:
    """Lists of words and of tags, with the document of each sentence. None: each sentence is its own document."""
    for row, (some, their) in enumerate(zip(words, tags, strict=True)):
        are_lists = isinstance(some, list) and isinstance(their, list) and len(some) == len(their) > 0
        if not are_lists or not all(isinstance(text, str) for text in (*some, *their)):
            raise ValueError(
                f"row {row}: expected lists of words and of as many tags, all strings. "
                f"Received: {shown(some)} and {shown(their)}"
            )
    converted = convert_sentences([[f"row {row}"] * len(some) for row, some in enumerate(tags)], tags, scheme)
    numbers = list(range(len(words)))
    if documents:
        for row, document in enumerate(documents):
            if is_missing(document):
                raise ValueError(
                    f"row {row}: expected the sentence's document in 'document'. Received: {shown(document)}"
                )
        numbers = [0]
        for before, now in itertools.pairwise(documents):
            numbers.append(numbers[-1] + (before != now))
    return TaggedText([list(some) for some in words], converted, numbers)


def _sentences(path, tag_column):
    """Yields (document number, [(line number, word, tag), …]).

    Document 0 is the text before the first -DOCSTART-.
    """
    document = 0
    sentence = []
    columns = None
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip(" \t"):
            if sentence:
                yield document, sentence
            sentence = []
            continue
        if "\r" in line:
            raise ValueError(f"{path}, line {number}: a carriage return inside the line. Save the file with LF.")
        cells = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
        if cells[0] == DOCUMENT_START:
            if sentence:
                yield document, sentence
            sentence = []
            document = document + 1
            continue
        columns = columns or len(cells)
        _check_cells(path, number, cells, columns, tag_column)
        sentence.append((number, cells[0], cells[tag_column].strip(" ")))
    if sentence:
        yield document, sentence


def _check_cells(path, number, cells, columns, tag_column):
    if len(cells) != columns or len(cells) < 2:
        wanted = f"{columns} columns, as in the first line" if columns > 1 else "a word and its tag at least"
        raise ValueError(f"{path}, line {number}: expected {wanted}. Received: {shown(cells, 500)}")
    if not -columns <= tag_column < columns or tag_column % columns == 0:
        raise ValueError(
            f"{path}, line {number}: expected a tag in column {tag_column} (from 0, which is the word's; negative from "
            f"the end). Received: {columns} columns"
        )
    if not cells[0].strip(" "):
        raise ValueError(f"{path}, line {number}: expected a word in the first column. Received: {shown(cells, 500)}")
