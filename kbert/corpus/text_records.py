"""Text that is given to a pre-training → records."""

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbert.corpus.documents import DocumentList, iterate_documents
from kbert.corpus.held_out import check_held_out, is_held_out
from kbert.corpus.records import Records
from kbert.corpus.write_records import SHARD_TOKENS, SHUFFLE_SHARDS, RecordsWriter, write_shards

if TYPE_CHECKING:
    from kbert.text.tokenizer import BertTokenizer

_LOGGER = logging.getLogger("kbert")


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

    Complete records are verified and reused; damaged ones are deleted and written again, the same as before.

    Args:
        text: files, as `find_files` gives them, or a `DocumentList`.
        tokenizer: `kbert.BertTokenizer`.
        directory: a directory for the records alone.
        held_out: fraction of the documents set aside for evaluation.
        format, language: see `read_documents`; of files.
        characters: where to stop reading. Defaults to the end.

    Raises:
        ValueError: no document for training or for evaluation, a damaged file of text.
    """

    def documents():
        return iter(text) if isinstance(text, DocumentList) else iterate_documents(text, format, language)

    if isinstance(text, DocumentList):
        settings = {"documents": len(text), "sha256": text.fingerprint()}
    else:
        settings = {"corpus": [[os.fspath(path), os.path.getsize(path)] for path in text]}
        settings |= {"format": format, "language": language}
    writer = RecordsWriter(
        directory,
        tokenizer,
        shard_tokens=SHARD_TOKENS,
        shuffle_shards=SHUFFLE_SHARDS,
        held_out=held_out,
        seed=0,
        settings=settings,
    )
    if not _is_complete(writer):
        if held_out:
            check_held_out(documents(), held_out)
        write_shards(writer, documents() if characters is None else _beginning(documents(), held_out, characters))
    return Records(directory)


def _is_complete(writer):
    """Opens the writer for missing records and deletes damaged ones. Returns whether all records are there."""
    try:
        is_complete = writer.open(overwrite=False)
        if is_complete:
            Records(writer.directory).check_hashes()
        return is_complete
    except ValueError as error:
        is_complete = writer.open(overwrite=True)
        _LOGGER.warning("%s\nThe records are deleted and written again.", error)
        return is_complete


def _beginning(documents, held_out, characters):
    """The first documents, with at least one for training and one for evaluation if `held_out` is not 0."""
    kinds = set()
    for document in documents:
        yield document
        kinds.add(is_held_out(document, held_out))
        characters -= sum(map(len, document))
        if characters <= 0 and (len(kinds) == 2 or not held_out):
            return
