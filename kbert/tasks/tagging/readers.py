"""Tagged files → tagged words: CoNLL columns, and JSON lines with spans."""

import itertools
import pathlib
import re

from kbert.checks import check_path, is_missing, shown
from kbert.tasks.table import JSON_LINES
from kbert.tasks.tagging.span_reader import read_span_lines
from kbert.tasks.tagging.tag_scheme import convert_sentences
from kbert.tasks.tagging.tagged_text import TaggedText
from kbert.tasks.text_files import read_lines

DOCUMENT_START = "-DOCSTART-"


def read_tagged(path, *, tag_column: int = -1, scheme: str | None = None) -> TaggedText:
    """A tagged file of either kind: .jsonl and .ndjson by `read_span_lines`, all others by `read_conll`."""
    if check_path(path, "read: `path`").suffix.lower() in JSON_LINES:
        return read_span_lines(path)
    return read_conll(path, tag_column=tag_column, scheme=scheme)


def read_conll(path, *, tag_column: int = -1, scheme: str | None = None) -> TaggedText:
    """Reads a file in CoNLL columns: one word per line, an empty line after every sentence.

    The word is the first column and the tag the last, or the one chosen; columns are separated by tabs or, in lines
    without one, by spaces. Lines end in LF or CRLF. A line that begins with ``-DOCSTART-`` starts a document; in a file
    without such lines every sentence is its own document. Tags in IOB1, IOB2, BIOES or BILOU are converted to IOB2
    exactly; a sequence that breaks its scheme is an error and is not repaired.

    Args:
        path: the file, UTF-8, with or without byte order mark.
        tag_column: index of the tag's column; negative from the end.
        scheme: "iob1", "iob2", "bioes" or "bilou". None: recognised from the whole file.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no words, invalid UTF-8, a carriage return inside a line, a line with a different number of columns
            than the first, an invalid tag, tags that break their scheme; the message names file and line.

    Source: Tjong Kim Sang and De Meulder 2003 (CoNLL-2003).

    Example::

        tagged = read_conll("eng.train")
        tagged.words[0][:2], tagged.tags[0][:2]  # (["EU", "rejects"], ["B-ORG", "O"])
    """
    path = pathlib.Path(path)
    words, tags, documents, lines = [], [], [], []
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
    """Sentences in memory: lists of words and of tags, and the document of each; None: each is its own document."""
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
    """Yields (document number, [(line number, word, tag), …]); document 0 is the text before the first -DOCSTART-."""
    document, sentence, columns = 0, [], None
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
            sentence, document = [], document + 1
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
