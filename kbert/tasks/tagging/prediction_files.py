"""Predicted tags → a file in CoNLL columns."""

import pathlib
from collections.abc import Sequence

from kbert.files import atomic_file
from kbert.tasks.tagging.readers import DOCUMENT_START
from kbert.tasks.tagging.tagged_text import TaggedText


def write_predictions(path, tagged: TaggedText, predicted: Sequence[Sequence[str]]) -> None:
    """Writes word, given tag and predicted tag in columns, as conlleval reads them.

    Columns are separated by a space, sentences by an empty line, documents of several sentences by a -DOCSTART- line;
    tags are IOB2. White space inside a word or type, which columns cannot hold, becomes "_". The file appears
    atomically.
    """
    path = pathlib.Path(path)
    has_documents = len(tagged.texts("document")) < len(tagged)
    lines, document = [], None
    if len(predicted) != len(tagged):
        raise ValueError(f"write_predictions: expected tags for {len(tagged)} sentences. Received: {len(predicted)}")
    for row in range(len(tagged)):
        if has_documents and tagged.documents[row] != document:
            document = tagged.documents[row]
            lines += [f"{DOCUMENT_START} O O", ""]
        for word, tag, guess in zip(tagged.words[row], tagged.tags[row], predicted[row], strict=True):
            lines.append(" ".join("_".join(cell.split()) or "_" for cell in (word, tag, guess)))
        lines.append("")
    with atomic_file(path) as file:
        file.write("\n".join(lines) + "\n")
