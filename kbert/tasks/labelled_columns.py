"""Files of labelled words or texts, of any labels → the columns that `kbert.inspect` probes."""

import pathlib
import re
from collections.abc import Mapping

from kbert.tasks.table import TABLES, read_table
from kbert.tasks.tagging.readers import DOCUMENT_START
from kbert.tasks.tagging.tag_scheme import convert_sentences
from kbert.tasks.text_files import read_lines


def read_labelled_columns(
    path, columns: Mapping[str, int] | None = None, *, text: str = "text", label: str = "label", text_pair=None
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
    sentences = list(_sentences(path, is_conllu))
    if not sentences:
        raise ValueError(f"{path}: expected words in columns. Received: a file without any")
    found = {
        name: [[_cell(*word, name, column) for word in one] for one in sentences] for name, column in columns.items()
    }
    places = [[where for where, _ in sentence] for sentence in sentences]
    if "heads" in found:
        found["heads"] = [_heads(*one) for one in zip(places, found["heads"], strict=True)]
    if "tags" in found:
        try:
            found["tags"] = convert_sentences(places, found["tags"])
        except ValueError as error:
            raise ValueError(f"{error}; give other labels another name than 'tags'") from None
    return found


def _sentences(path, is_conllu):
    """Yields [("file, line", cells), …]."""
    sentence = []
    for number, line in enumerate([*read_lines(path), ""], start=1):
        cells = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
        if not line.strip(" \t") or cells[0] == DOCUMENT_START:
            if sentence:
                yield sentence
            sentence = []
        elif not is_conllu or (cells[0].isdecimal() and not line.startswith("#")):
            sentence.append((f"{path}, line {number}", cells))


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
