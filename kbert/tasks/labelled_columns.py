"""Files of labelled words or texts, of any labels → the columns that `kbert.inspect` probes."""

import pathlib
import re
from collections.abc import Mapping

from kbert.tasks.table import read_table
from kbert.tasks.tagging.readers import DOCUMENT_START
from kbert.tasks.tagging.tag_scheme import recognise_scheme, to_iob2
from kbert.tasks.text_files import read_lines

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")
DEFAULT_COLUMNS = {"tags": -1}


def read_labelled_columns(
    path, columns: Mapping[str, int] | None = None, *, text: str = "text", label: str = "label", text_pair=None
) -> dict[str, list]:
    """Reads labelled words from columns, as CoNLL's and Universal Dependencies' files have them, or texts from a table.

    Args:
        path: .csv, .tsv, .jsonl and .ndjson are tables of texts; all others have a word a line and an empty line after
            each sentence. Lines that begin with ``-DOCSTART-``, or in a .conllu with ``#``, are skipped, as are the
            words of a .conllu without a whole number.
        columns: name of the property → its column, from 0, negative from the end; labels may be any strings. Three
            names are special: ``words`` (column 0 by default; 1 in a .conllu), ``tags`` (entities in any scheme, which
            become IOB2) and ``heads`` (number of the word's syntactic head in its sentence from 1, 0 for the root).
            None: ``tags`` in the last column.
        text, label, text_pair: of a table, names of its columns.

    Returns:
        dict of columns as `kbert.inspect` takes them: ``words`` and the others, or ``text`` and the labels.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no words, a line without such a column, a head that is not a word of the sentence, tags that break
            their scheme; the message names file and line.

    Example::

        read_labelled_columns("eng.train", {"pos": 1, "tags": -1})["pos"][0]  # ["NNP", "VBZ", …]
    """
    path = pathlib.Path(path)
    if path.suffix.lower() in TABLES:
        table = read_table(path, [text, label, *([text_pair] if text_pair else [])])
        return {"text": table[text], label: table[label]} | ({"text_pair": table[text_pair]} if text_pair else {})
    is_conllu = path.suffix.lower() == ".conllu"
    columns = {"words": 1 if is_conllu else 0, **(DEFAULT_COLUMNS if columns is None else columns)}
    found, lines = {name: [] for name in columns}, []
    for sentence in _sentences(path, is_conllu):
        lines.append(sentence[0][0])
        for name, column in columns.items():
            found[name].append([_cell(path, number, cells, name, column) for number, cells in sentence])
    if not lines:
        raise ValueError(f"{path}: expected words in columns. Received: a file without any")
    if "heads" in found:
        found["heads"] = [_heads(path, *one) for one in zip(lines, found["heads"], strict=True)]
    if "tags" in found:
        found["tags"] = _tags(path, lines, found["tags"])
    return found


def _sentences(path, is_conllu):
    """Yields [(line number, cells), …]."""
    sentence = []
    for number, line in enumerate([*read_lines(path), ""], start=1):
        if not line.strip(" \t"):
            if sentence:
                yield sentence
            sentence = []
            continue
        cells = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
        if cells[0] == DOCUMENT_START or (is_conllu and (line.startswith("#") or not cells[0].isdecimal())):
            continue
        sentence.append((number, cells))


def _cell(path, number, cells, name, column):
    if not -len(cells) <= column < len(cells):
        raise ValueError(
            f"{path}, line {number}: expected {name!r} in column {column} (from 0; negative from the end). "
            f"Received: {len(cells)} columns"
        )
    return cells[column]


def _heads(path, first, heads):
    for n, head in enumerate(heads):
        if not head.isdecimal() or int(head) > len(heads):
            raise ValueError(
                f"{path}, line {first + n}: expected the number of a word's head, from 0 (the root) to {len(heads)}. "
                f"Received: {head!r}"
            )
    return [int(head) - 1 for head in heads]


def _tags(path, lines, tags):
    try:
        scheme = recognise_scheme(tags)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; give other labels another name than 'tags'") from None
    found = []
    for first, sentence in zip(lines, tags, strict=True):
        try:
            found.append(to_iob2(sentence, scheme))
        except ValueError as error:
            raise ValueError(f"{path}, sentence at line {first}: {error}") from None
    return found
