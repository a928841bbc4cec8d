"""Documents in memory, in the place of text files."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence

from kbert.corpus.documents import gather_documents


class DocumentList:
    """Documents in memory as `read_documents` gives those of one file: without empty lines, long ones divided.

    Args:
        documents: lists of sentences.

    Raises:
        TypeError: a document that is no list of str.
        ValueError: no sentence.

    Example::

        DocumentList([["A first sentence.", "A second one."], ["Another document."]])
    """

    def __init__(self, documents: Iterable[Sequence[str]]):
        sentences = []  # None after each document
        for number, document in enumerate(documents):
            is_list = isinstance(document, list | tuple)
            if wrong := [one for one in document if not isinstance(one, str)] if is_list else [document]:
                raise TypeError(
                    f"documents[{number}]: expected a document as a list of sentences (str). "
                    f"Received: {str(wrong[0])[:60]!r}"
                )
            sentences += [stripped for one in document if (stripped := one.strip())] + [None]
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
        """SHA-256 of the documents: it identifies them."""
        digest = hashlib.sha256()
        for document in self:
            digest.update(json.dumps(document).encode())
        return digest.hexdigest()
