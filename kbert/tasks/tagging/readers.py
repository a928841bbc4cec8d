"""Tagged words: the examples of tagging, from CoNLL's columns, lists of words and tags, or spans of entities."""

import collections
import dataclasses
import itertools
import logging
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kbert.aliases import PathLike
from kbert.checks import shown
from kbert.tasks.examples import Examples
from kbert.tasks.in_memory import column_names, table_of
from kbert.tasks.table import TABLES, Table, place, read_lines, read_table, whole_number
from kbert.tasks.tagging.tag_scheme import PLAIN, are_plain, convert_sentences


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TaggedText(Examples):
    """Sentences of words with a tag each.

    Tags of entities are in IOB2: the first word of an entity has B-type, its others I-type. Others are `plain`.
    """

    words: Sequence[Sequence[str]]  # of each sentence
    tags: Sequence[Sequence[str]]  # as many of each
    documents: Sequence[int]  # the document number of each sentence, ascending
    path: str | None = None
    lines: Sequence[int] = ()  # the line of each sentence's first word
    one_line: bool = False  # whether all words of a sentence are on that line
    tag_names: Sequence[str] | None = None  # of a tagger, with held-out types; None: those of this text
    plain: bool = False  # whether tags such as DET label their words, instead of marking entities

    row_fields = ("words", "tags", "documents")
    _unit = "documents"

    def __post_init__(self):
        super().__post_init__()
        for row, (words, tags) in enumerate(zip(self.words, self.tags, strict=True)):
            if len(words) != len(tags):
                raise ValueError(
                    f"{self.where(row)}: expected one tag per word. Received: {len(words)} and {len(tags)}"
                )

    @property
    def columns(self) -> dict[str, list[str]]:
        """The sentences with their words joined by spaces, for pipelines of strings."""
        return {"text": [" ".join(words) for words in self.words]}

    def _rows(self):
        return {"words": list(self.words), "tags": list(self.tags), "document": list(self.documents)}

    def baseline(self) -> str:
        """The tag of words outside of entities, O, or the most frequent one of plain tags."""
        return collections.Counter(itertools.chain(*self.tags)).most_common(1)[0][0] if self.plain else "O"

    def where(self, row: int, word: int = 0) -> str:
        """File and line of a word of a sentence, as error messages name them."""
        if not len(self.lines):
            return f"{self.path or 'the tagged text'}, sentence {row}"
        return place(self.path, self.lines[row] + (0 if self.one_line else word))

    def _groups(self):
        return self.texts("document")

    def texts(self, context: str = "document") -> list[range]:
        """The sentences that a tagger reads together: one by one, or with the context "document" all of a document."""
        if context == "sentence":
            return [range(n, n + 1) for n in range(len(self))]
        starts = [n for n in range(len(self)) if n == 0 or self.documents[n] != self.documents[n - 1]]
        return [range(a, b) for a, b in zip(starts, [*starts[1:], len(self)], strict=True)]


def learn_tags(tagged: TaggedText) -> list[str]:
    """The tags of a tagger trained on this text: "O", then B- and I- of each type. Plain tags are sorted."""
    if tagged.plain:
        return sorted(set().union(*tagged.tags))
    types = sorted({tag[2:] for tags in tagged.tags for tag in tags if tag != "O"})
    return ["O", *(f"{prefix}-{type_}" for type_ in types for prefix in "BI")]


def check_tags(tagged: TaggedText, tags: Sequence[str]) -> None:
    """Raises a ValueError that names file and line for the first tag that is not among `tags`."""
    for row, sentence in enumerate(tagged.tags):
        for n, tag in enumerate(sentence):
            if tag not in tags:
                raise ValueError(f"{tagged.where(row, n)}: expected one of {list(tags)}. Received: {shown(tag)}")


def _tagged_spans(table: Table) -> TaggedText:
    """The words and tags of the columns ``text`` and ``spans``, each row a document.

    The words are split by `kbert.text.words.split_words`, as a tagger does, and divided further where a span begins or
    ends inside a word, so that every span consists of whole words. Overlapping spans cannot be written as tags and are
    an error.
    """
    places = [table.where(row) for row in range(len(table.lines))]
    for where, text, spans in zip(places, table["text"], table["spans"], strict=True):
        if not isinstance(spans, list):
            raise ValueError(
                f"{where}: expected a text and a list of spans. Received: {shown(text)} and {shown(spans)}"
            )
    words, tags = _words_and_tags(places, table["text"], table["spans"])
    return _tagged(table, words, tags, list(range(len(words))))


def _tagged(table, words, tags, documents, is_plain=False):
    lines = table.lines if table.path else ()
    return TaggedText(words, tags, documents, table.path, lines, one_line=True, plain=is_plain)


def _words_and_tags(places, texts, spans):
    from kbert.text.words import split_words  # not above: it loads TensorFlow

    words = []
    tags = []
    spans = [_checked(*row) for row in zip(places, texts, spans, strict=True)]
    _, starts, ends = split_words(texts)
    borders = zip(starts.to_list(), ends.to_list(), strict=True)
    for where, text, spans_of_text, border in zip(places, texts, spans, borders, strict=True):
        pieces = _cut(list(zip(*border, strict=True)), {end for span in spans_of_text for end in span[:2]})
        if not pieces:
            raise ValueError(f"{where}: expected a text with a word in it. Received: {shown(text)}")
        words.append([text[start:end] for start, end in pieces])
        tags.append(_tags(where, text, pieces, spans_of_text))
    return words, tags


def _checked(where, text, spans):
    """[(start, end, type), …], ascending."""
    checked = []
    for span in spans:
        start, end, type_ = _parts(where, span)
        if not 0 <= start < end <= len(text):
            raise ValueError(f"{where}: expected a span inside the text, 0 to {len(text)}. Received: {span}")
        checked.append((start, end, type_))
    checked.sort()
    for span, following in itertools.pairwise(checked):
        if following[0] < span[1]:
            raise ValueError(f"{where}: spans must not overlap. Received: {span} and {following}")
    return checked


def _parts(where, span):
    """(start, end, type) of a span. spaCy and Prodigy call the type ``label``."""
    if isinstance(span, dict):
        parts = [span.get("start"), span.get("end"), span.get("type") or span.get("label")]
    else:
        parts = span if isinstance(span, list) else []
    start, end = (whole_number(part) for part in (*parts[:2], None, None)[:2])
    if start is None or end is None or len(parts) != 3 or not isinstance(parts[2], str) or not parts[2].strip():
        raise ValueError(f'{where}: expected a span {{"start": 0, "end": 5, "type": "PER"}}. Received: {span}')
    return start, end, parts[2].strip()


def _cut(places, borders):
    """Words [(start, end), …], divided at the borders inside them."""
    pieces = []
    for start, end in places:
        cuts = sorted({start, end} | {border for border in borders if start < border < end})
        pieces += itertools.pairwise(cuts)
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
_TABLES = tuple(suffix for suffix in TABLES if suffix != ".tsv")  # a .tsv has a word a line
_UPOS = 3  # a .conllu's column of universal parts of speech
_LOGGER = logging.getLogger("kbert")


def read_tagged(data: Any, *, tag_column: int | None = None, scheme: str | None = None) -> TaggedText:
    """Tagged words from a file or from rows in memory: .csv, .jsonl, Parquet, Arrow and rows by their columns.

    All other files are read by `read_conll`. The columns are ``words`` and ``tags`` (or ``tokens`` and ``ner_tags``)
    with a list of strings each, and perhaps ``document``. Or they are ``text`` and ``spans``, such as
    ``{"text": "Peter left Paris.", "spans": [{"start": 0, "end": 5, "type": "PER"}, …]}``. Positions are code points of
    the text, end exclusive. A span may also be written ``[0, 5, "PER"]``, and its type be called ``label``.
    """
    if isinstance(data, str | os.PathLike) and pathlib.Path(data).suffix.lower() not in _TABLES:
        return read_conll(data, tag_column=tag_column, scheme=scheme)
    names = column_names(data)
    if {"text", "spans"} <= set(names):
        return _tagged_spans(table_of(data, ["text", "spans"], nested=["spans"]))
    words = "tokens" if "tokens" in names and "words" not in names else "words"
    tags = "ner_tags" if "ner_tags" in names and "tags" not in names else "tags"
    if names and not {words, tags} <= set(names):
        where = f"{data}: " if isinstance(data, str | os.PathLike) else ""
        raise ValueError(
            f"{where}expected the columns 'words' and 'tags' ('tokens' and 'ner_tags'), or 'text' and 'spans'. "
            f"Received: {names}"
        )
    return _tagged_words(table_of(data, [words, tags], ["document"], nested=[words, tags]), words, tags, scheme)


def read_conll(path: PathLike, *, tag_column: int | None = None, scheme: str | None = None) -> TaggedText:
    """Reads a file in CoNLL columns: one word per line, an empty line after every sentence.

    The word is the first column and the tag the last, or the one with the index `tag_column`, negative from the end.
    Columns are separated by tabs or, in lines without one, by spaces. The file is UTF-8, with or without byte order
    mark, and lines end in LF or CRLF. A line that begins with ``-DOCSTART-`` starts a document. In a file without such
    lines every sentence is its own document.

    In a .conllu the word is the second column and the tag the fourth, UPOS. ``# newdoc`` starts a document. Other
    comments, and the words without a whole number, are skipped.

    Tags in the `scheme` "iob1", "iob2", "bioes" or "bilou" are converted to IOB2 exactly. A sequence that breaks its
    scheme is an error and is not repaired. Tags in the scheme "plain" are taken as they are. None: it is recognised
    from the whole file, as plain if no tag has a prefix like B- or I-.

    Source: Tjong Kim Sang and De Meulder 2003 (CoNLL-2003).
    """
    words = []
    tags = []
    documents = []
    lines = []
    columns = None
    is_conllu = pathlib.Path(path).suffix.lower() == ".conllu"
    word_column = 1 if is_conllu else 0
    if tag_column is None:
        tag_column = _UPOS if is_conllu else -1
    for document, sentence in _sentences(path, is_conllu):
        columns = columns or len(sentence[0][1])
        for number, cells in sentence:
            _check_cells(f"{path}, line {number}", cells, columns, word_column, tag_column)
        words.append([cells[word_column] for _, cells in sentence])
        tags.append([cells[tag_column].strip(" ") for _, cells in sentence])
        documents.append(document)
        lines.append([number for number, _ in sentence])
    if not words:
        raise ValueError(f"{path}: expected words in columns. Received: a file without any")
    places = [[f"{path}, line {number}" for number in numbers] for numbers in lines]
    tags, is_plain = _converted(places, tags, scheme, str(path))
    if set(documents) == {0}:  # no line said where one begins
        documents = list(range(len(words)))
    return TaggedText(words, tags, documents, str(path), [numbers[0] for numbers in lines], plain=is_plain)


def _converted(places, tags, scheme, name):
    """(tags in IOB2, False), or (plain tags as they are, True)."""
    if scheme != PLAIN and not (scheme is None and are_plain(tags)):
        return convert_sentences(places, tags, scheme, f". The scheme {PLAIN!r} takes all tags as they are"), False
    count = len(set().union(*tags))
    _LOGGER.info("%s: %s plain tags, without B- and I-, scored by accuracy", name, count)
    return [list(each) for each in tags], True


def _tagged_words(table, words, tags, scheme):
    """Lists of words and of tags. Without a column ``document`` each sentence is its own document."""
    places = [table.where(row) for row in range(len(table.lines))]
    for where, sentence, its_tags in zip(places, table[words], table[tags], strict=True):
        are_lists = isinstance(sentence, list) and isinstance(its_tags, list) and len(sentence) == len(its_tags) > 0
        if not are_lists or not all(isinstance(text, str) for text in (*sentence, *its_tags)):
            raise ValueError(
                f"{where}: expected lists of words and of as many tags, all strings. "
                f"Received: {shown(sentence)} and {shown(its_tags)}"
            )
    places_of_tags = [[where] * len(its_tags) for where, its_tags in zip(places, table[tags], strict=True)]
    converted, is_plain = _converted(places_of_tags, table[tags], scheme, table.path or "rows in memory")
    numbers = list(range(len(places)))
    if "document" in table:
        for where, document in zip(places, table["document"], strict=True):
            if not document:
                raise ValueError(f"{where}: expected the sentence's document in 'document'. Received: an empty cell")
        numbers = [0]
        for before, now in itertools.pairwise(table["document"]):
            numbers.append(numbers[-1] + (before != now))
    return _tagged(table, table[words], converted, numbers, is_plain)


def _sentences(path, is_conllu: bool = False):
    """Yields (document number, [(line number, cells), …]). Document 0 is what comes before the first -DOCSTART-."""
    document = 0
    sentence = []
    for number, line in enumerate([*read_lines(path), ""], start=1):
        if "\r" in line:
            raise ValueError(f"{path}, line {number}: a carriage return inside the line. Save the file with LF.")
        cells = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
        is_document = line.startswith("# newdoc") if is_conllu else cells[0] == DOCUMENT_START
        if is_document or not line.strip(" \t"):
            if sentence:
                yield document, sentence
            sentence = []
            document += is_document
        elif not is_conllu or (cells[0].isdecimal() and not line.startswith("#")):
            sentence.append((number, cells))


def _check_cells(where, cells, columns, word_column, tag_column):
    if len(cells) != columns or len(cells) < 2:
        expected = f"{columns} columns, as in the first line" if columns > 1 else "a word and its tag at least"
        raise ValueError(f"{where}: expected {expected}. Received: {shown(cells, 500)}")
    if not -columns <= tag_column < columns or tag_column % columns == word_column:
        raise ValueError(
            f"{where}: expected a tag in column {tag_column} (from 0; {word_column} is the word's; negative from "
            f"the end). Received: {columns} columns"
        )
    if not cells[word_column].strip(" "):
        raise ValueError(f"{where}: expected a word in column {word_column}. Received: {shown(cells, 500)}")


def read_labelled_columns(
    path: PathLike,
    columns: Mapping[str, int] | None = None,
    *,
    text: str = "text",
    label: str = "label",
    text_pair: str | None = None,
) -> dict[str, list]:
    """Reads labelled words from columns, as CoNLL's and Universal Dependencies' files have them, or texts from a table.

    .csv, .tsv, .jsonl and .ndjson are tables of texts. All other files have a word a line and an empty line after each
    sentence. Lines that begin with ``-DOCSTART-``, or in a .conllu with ``#``, are skipped. So are the words of a
    .conllu without a whole number.

    `columns` maps the name of a property to its column, from 0, negative from the end. Three names are special:
    ``words`` (by default column 0, in a .conllu 1), ``tags`` (entities in any scheme, which become IOB2) and ``heads``
    (the number of the word's syntactic head in its sentence from 1, 0 for the root). None means ``tags`` in the last
    column.

    Returns columns as `kbert.inspect` takes them: ``words`` and the others, or ``text`` and the labels.
    """
    path = pathlib.Path(path)
    if path.suffix.lower() in TABLES:
        table = read_table(path, [text, label, *([text_pair] if text_pair else [])])
        return {"text": table[text], label: table[label]} | ({"text_pair": table[text_pair]} if text_pair else {})
    is_conllu = path.suffix.lower() == ".conllu"
    columns = {"words": 1 if is_conllu else 0, **({"tags": -1} if columns is None else columns)}
    sentences = [
        [(f"{path}, line {number}", cells) for number, cells in sentence] for _, sentence in _sentences(path, is_conllu)
    ]
    if not sentences:
        raise ValueError(f"{path}: expected words in columns. Received: a file without any")
    values = {
        name: [[_cell(*word, name, column) for word in sentence] for sentence in sentences]
        for name, column in columns.items()
    }
    places = [[where for where, _ in sentence] for sentence in sentences]
    if "heads" in values:
        values["heads"] = [_heads(*sentence) for sentence in zip(places, values["heads"], strict=True)]
    if "tags" in values:
        try:
            values["tags"] = convert_sentences(places, values["tags"])
        except ValueError as error:
            raise ValueError(f"{error}; give other labels another name than 'tags'") from None
    return values


def _cell(where, cells, name, column):
    if not -len(cells) <= column < len(cells):
        raise ValueError(
            f"{where}: expected {name!r} in column {column} (from 0; negative from the end). "
            f"Received: {len(cells)} columns"
        )
    return cells[column]


def _heads(places, heads):
    for where, head in zip(places, heads, strict=True):
        if not head.isdecimal() or int(head) > len(heads):
            raise ValueError(
                f"{where}: expected the number of a word's head, from 0 (the root) to {len(heads)}. Received: {head!r}"
            )
    return [int(head) - 1 for head in heads]
