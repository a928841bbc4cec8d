"""What `kbert.pretrain` learns from: paths, or documents in memory."""

import glob
import os

from kbert.checks import shown
from kbert.corpus.document_list import DocumentList, texts_as_documents
from kbert.corpus.documents import prose_sentences
from kbert.tasks.in_memory import column_names, read_columns


def corpus_source(corpus):
    """Paths as they are, and documents in memory as a `DocumentList`.

    Args:
        corpus: path(s) or glob pattern(s); a list of documents, each a list of sentences or a text; or rows with a
            column ``text``, each a document of running prose, in any of the forms that `kbert.tasks.read_columns`
            takes.

    Raises:
        TypeError: data of another type.
        ValueError: no sentences, no column ``text``.
    """
    if isinstance(corpus, str | os.PathLike):
        return corpus
    if column_names(corpus) or hasattr(corpus, "element_spec"):
        texts = read_columns(corpus, ["text"])["text"]
        if wrong := [text for text in texts if not isinstance(text, str)]:
            raise TypeError(f"pretrain: expected texts (str) in the column `text`. Received: {shown(wrong[0])}")
        return DocumentList(map(prose_sentences, texts))
    if not isinstance(corpus, list | tuple):
        raise TypeError(
            "pretrain: `corpus_or_records` must be path(s), a list of documents (lists of sentences), or rows with a "
            f"column `text`. Received: {type(corpus).__name__}"
        )
    if len(corpus) == 1 and isinstance(corpus[0], str | os.PathLike) and os.path.isdir(corpus[0]):
        return corpus[0]  # of records, as on the command line
    return texts_as_documents(corpus)


def check_paths(corpus) -> None:
    """Raises ValueError if a list of strings has no path and no pattern: text is probably meant."""
    if not isinstance(corpus, list | tuple) or not corpus:
        return
    if not any(os.path.exists(one) or glob.has_magic(os.fspath(one)) for one in corpus):
        raise ValueError(
            f"No file matches {shown(os.fspath(corpus[0]))}. Give paths of text files, glob patterns, or documents "
            'in memory: a list of documents, each a list of sentences, such as [["One.", "Two."], ["Another text."]]'
        )
