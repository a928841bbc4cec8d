"""Documents in memory, in the place of text files."""

import glob
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence

from kbert.checks import shown
from kbert.corpus.documents import FINISHED, gather_documents, prose_sentences

_LONGEST_NAME = 255  # bytes of a part of a path


def texts_as_documents(source):
    """A list of documents or texts as a `DocumentList`; any other source as it is.

    A document is a list of sentences, a text is running prose. Strings are texts, not paths, if none of them is a file
    and one has a line break, a part too long for a file's name, or spaces and the end of a sentence. So a mistyped file
    name stays a path.
    """
    if not isinstance(source, list | tuple):
        return source
    if any(isinstance(item, list | tuple) for item in source):
        return DocumentList(source)
    texts = [item for item in source if isinstance(item, str)]
    if len(texts) < len(source) or not any(map(_is_text, texts)) or any(map(_is_file, texts)):
        return source
    return DocumentList(map(prose_sentences, texts))


def _is_text(string):
    is_name = "\n" not in string and max(map(len, os.fsencode(string).split(b"/"))) <= _LONGEST_NAME
    return not is_name or (" " in string.strip() and FINISHED.search(string.strip()) is not None)


def _is_file(string):
    if "\n" in string or len(string) > 4096:  # longer than any path
        return False
    return os.path.exists(string) or bool(glob.has_magic(string) and glob.glob(string))


class DocumentList:
    """Documents in memory, divided as `read_documents` divides a file: no empty lines, long documents cut.

    Args:
        documents: iterable of documents, each a list of sentences (str).

    Raises:
        TypeError: a document is not a list of str.
        ValueError: there is no sentence.

    Example::

        DocumentList([["A first sentence.", "A second one."], ["Another document."]])
    """

    def __init__(self, documents: Iterable[Sequence[str]]):
        sentences = []  # None after each document
        for number, document in enumerate(documents):
            is_list = isinstance(document, list | tuple)
            if wrong := [sentence for sentence in document if not isinstance(sentence, str)] if is_list else [document]:
                raise TypeError(
                    f"documents[{number}]: expected a document as a list of sentences (str). "
                    f"Received: {shown(wrong[0])}"
                )
            sentences += [stripped for sentence in document if (stripped := sentence.strip())] + [None]
        self._documents = list(gather_documents(sentences))
        if not self._documents:
            raise ValueError("Expected documents with at least one sentence. Received: none")

    def __iter__(self) -> Iterator[list[str]]:
        return iter(self._documents)

    def __len__(self):
        return len(self._documents)

    def __repr__(self):
        return f"<DocumentList: {len(self):,} documents in memory>"

    def fingerprint(self) -> str:
        """SHA-256 of the documents, as 64 hexadecimal digits."""
        digest = hashlib.sha256()
        for document in self:
            digest.update(json.dumps(document).encode())
        return digest.hexdigest()
