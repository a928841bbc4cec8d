"""Text that is given to a pre-training → records."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbert.corpus.documents import DocumentList, iterate_documents
from kbert.corpus.held_out import check_held_out, is_held_out
from kbert.corpus.records import Records
from kbert.corpus.records_manifest import is_records
from kbert.corpus.write_records import write_records

if TYPE_CHECKING:
    from kbert.text.tokenizer import BertTokenizer


def write_text_records(
    text: Sequence[str] | DocumentList,
    tokenizer: "BertTokenizer",
    directory: str | os.PathLike,
    *,
    held_out: float,
    format: str = "auto",
    language: str = "en",
    characters: int | None = None,
) -> Records:
    """Writes the records that ``kbert records`` makes of these files, or completes those that a killed run left.

    Args:
        text: files, as `find_files` gives them, or a `DocumentList`.
        tokenizer: `kbert.BertTokenizer`.
        directory: a directory for the records alone. Complete records are verified and reused.
        held_out: fraction of the documents set aside for evaluation.
        format, language: see `read_documents`; of files.
        characters: where to stop reading. Defaults to the end.

    Raises:
        ValueError: no document for training or for evaluation, a damaged file, records of other text.
    """

    def documents():
        return iter(text) if isinstance(text, DocumentList) else iterate_documents(text, format, language)

    if isinstance(text, DocumentList):
        settings = {"documents": len(text), "sha256": text.fingerprint()}
    else:
        settings = {"corpus": [[os.fspath(path), os.path.getsize(path)] for path in text]}
        settings |= {"format": format, "language": language}
    if held_out and not is_records(directory):
        check_held_out(documents(), held_out)
    chosen = documents() if characters is None else _beginning(documents(), held_out, characters)
    return write_records(chosen, tokenizer, directory, held_out=held_out, settings=settings)


def _beginning(documents, held_out, characters):
    """The first documents, with at least one for training and one for evaluation if `held_out` is not 0."""
    kinds = set()
    for document in documents:
        yield document
        kinds.add(is_held_out(document, held_out))
        characters -= sum(map(len, document))
        if characters <= 0 and (len(kinds) == 2 or not held_out):
            return
