"""What a pre-training reads: paths, documents in memory, and the files behind them."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

from kbert.aliases import PathLike
from kbert.corpus.corpus_files import find_files, is_tfrecords
from kbert.corpus.documents import DocumentList, prose_sentences, texts_as_documents
from kbert.corpus.records_manifest import is_records
from kbert.tasks.in_memory import column_names, table_of
from kbert.tasks.table import check_texts
from kbert.training.run_directory import RECORDS

BATCHES = "batches.json"  # the manifest of stored batches


class DataReport(NamedTuple):
    """What is known of the data before the training.

    real_fractions: list of floats, the fraction of tokens that are not padding in each phase.
    metrics: dict, the statistics of the training batches, and the scores of token frequencies on the held-out batches.
    tokens: int, the tokens of the training documents, or None.
    """

    real_fractions: list[float]
    metrics: dict[str, Any]
    tokens: int | None


def corpus_source(corpus: Any, verb: str = "pretrain") -> Any:
    """Paths unchanged, and documents in memory as a `DocumentList`."""
    if isinstance(corpus, str | os.PathLike):
        return corpus
    if column_names(corpus) or hasattr(corpus, "element_spec"):
        table = table_of(corpus, ["text"])
        check_texts(table, ["text"])
        return DocumentList(map(prose_sentences, table["text"]))
    if not isinstance(corpus, list | tuple):
        raise TypeError(
            f"{verb}: `corpus_or_records` must be path(s), a list of documents (lists of sentences), or rows with a "
            f"column `text`. Received: {type(corpus).__name__}"
        )
    if len(corpus) == 1 and isinstance(corpus[0], str | os.PathLike) and os.path.isdir(corpus[0]):
        return corpus[0]  # of records, as on the command line
    if not all(isinstance(item, str | os.PathLike) for item in corpus):
        return DocumentList(corpus)
    return texts_as_documents(corpus)


def is_batches(source: Any) -> bool:
    """Whether a source of `kbert.pretrain` is a directory of batches."""
    return isinstance(source, str | os.PathLike) and os.path.isfile(os.path.join(source, BATCHES))


def is_text(source: Any) -> bool:
    """Whether a source is text, in files or in memory, of which a run makes records."""
    return not (is_batches(source) or is_records(source) or is_tfrecords(source))


def input_files(source: Any, output: PathLike | None) -> Any:
    """The files of a source, as `open_run` takes them; None for documents in memory. Those in `output` do not count."""
    if isinstance(source, DocumentList):
        return None
    if is_batches(source):
        return pathlib.Path(source) / BATCHES
    return source if is_records(source) else find_files(source, is_text(source), output)


@contextlib.contextmanager
def records_place(output: str | os.PathLike | None) -> Iterator[pathlib.Path]:
    """The directory for the records of a run: in its output, or without one a temporary directory."""
    if output is not None:
        yield pathlib.Path(output) / RECORDS
        return
    with tempfile.TemporaryDirectory(prefix="kbert-") as directory:
        yield pathlib.Path(directory) / RECORDS
