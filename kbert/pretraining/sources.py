"""Where the documents of a pre-training dataset come from: text or records, for training or evaluation."""

import functools
import hashlib
import itertools
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from kbert.checks import check_numbers
from kbert.corpus.corpus_files import find_files
from kbert.corpus.documents import DocumentList, check_format, end_of_documents, file_documents, texts_as_documents
from kbert.corpus.pool import (
    POOL_SENTENCES,
    TokenPool,
    held_out_rank,
    is_held_out,
    pools_at_once,
    sufficient_fraction,
    text_pools,
)
from kbert.corpus.records import Records
from kbert.corpus.records_manifest import is_records
from kbert.errors import reading_errors
from kbert.stateless_random import fold_in, permutation
from kbert.text.tokenizer import BertTokenizer

HELD_OUT = 0.01  # of the documents of text, where nothing is given
_READING = {"format": "auto", "language": "en", "pool_sentences": POOL_SENTENCES}  # where nothing is given
_HEAD = 1 << 24  # characters of a corpus that are kept, about what its statistics are made of
_SHARDS = 2  # keeps this draw independent of other uses of the same seed
_FOREVER = 2**62
_KINDS = {True: "held out", False: "for training"}  # by `evaluation`
_graph = tf.autograph.experimental.do_not_convert  # nothing here is Python control flow over tensors; halves the start


def open_source(source: "Source", format: str = "auto", language: str = "en") -> "Records | TextSource":
    """`Records`, or a `TextSource`: opened once, for all that reads it. What is open already stays as it is."""
    if isinstance(source, Records | TextSource):
        return source
    return Records(source) if is_records(source) else TextSource(source, format, language)


class TextSource:
    """Files of text, found and checked once, or documents in memory.

    Before its first step a run looks at the beginning of its corpus for several reasons. What was read of it is kept,
    up to `_HEAD` characters; whoever reads further reads the file again.
    """

    def __init__(self, source: str | os.PathLike | Sequence | DocumentList, format: str = "auto", language: str = "en"):
        check_format(format)
        self.format = format
        self.language = language
        source = texts_as_documents(source)
        self.files = [source] if isinstance(source, DocumentList) else find_files(source)
        self.space = _HEAD  # characters that may still be kept
        self.lock = threading.Lock()  # datasets read in threads of their own
        self._heads: dict[str, _Head] = {}

    def documents(self, files: Sequence) -> Iterator[list[str]]:
        """The documents of some of the files, in the given order."""
        texts: list[tuple] = []
        for file in files:
            if isinstance(file, DocumentList):
                yield from file
                return
            head = self._heads.setdefault(file, _Head(self, file))
            yield from head.documents(texts)
        end_of_documents(files, self.format, texts)


# What a pre-training reads: `pretraining_dataset` explains the forms. Records and text that are open stay so.
Source = str | os.PathLike | Sequence | DocumentList | Records | TextSource


class _Head:
    """The first documents of a file, as far as they were read."""

    def __init__(self, source: TextSource, file: str):
        self.source = source
        self.file = file
        self.kept: list[list[str]] = []
        self.texts: list[tuple] = []  # of the file, once it was read to its end
        self.unread: Iterator | None = self._read(self.texts)

    def _read(self, texts):
        return file_documents(self.file, self.source.format, self.source.language, texts)

    def documents(self, texts: list[tuple]) -> Iterator[list[str]]:
        for number in itertools.count():
            with self.source.lock:
                if number == len(self.kept) and self.unread is not None:
                    self._read_one()
            if number < len(self.kept):
                yield self.kept[number]
            elif self.unread is not None:  # it has ended
                texts += self.texts
                return
            else:
                yield from itertools.islice(self._read(texts), number, None)
                return

    def _read_one(self):
        unread = self.unread
        self.unread = None  # after an error, as at the end of the space, the file is read again
        if self.source.space <= 0:
            return
        document = next(unread, None)
        self.unread = unread
        if document is not None:
            self.kept.append(document)
            self.source.space -= sum(map(len, document))


class NoDocuments(ValueError):
    """No document of a text corpus is held out, or none is left for training."""


def resolve_held_out(owner: str, source: Source, held_out: float | None, interval: str = "[0, 1)") -> float | None:
    """The fraction of the documents that are only for evaluation: of text, 0.01 by default; None of records."""
    if held_out is not None:
        (held_out,) = check_numbers(owner, interval, held_out=held_out).values()
    if not _are_records(source):
        return HELD_OUT if held_out is None else held_out
    if held_out is not None:
        raise ValueError(
            f"{owner}: records have held-out documents of their own (`held_out` of kbert.corpus.write_records). "
            f"Received: held_out={held_out}"
        )
    return None


def _are_records(source):
    return isinstance(source, Records) or is_records(source)


def check_reading(owner: str, source: Source, **options) -> None:
    """Raises ValueError for ``format``, ``language`` or ``pool_sentences`` that would be ignored."""
    if not _are_records(source) and not isinstance(source, DocumentList):
        return
    kind = "records" if _are_records(source) else "documents in memory"
    for name, value in options.items():
        is_used = kind != "records" and name == "pool_sentences"
        if not is_used and value != _READING[name]:
            raise ValueError(f"{owner}: {kind} are no files of text and take no `{name}`. Received: {name}={value!r}")


def check_held_out(source: Source, held_out: float | None) -> None:
    """Raises ValueError unless there are documents for training and for evaluation; reads until it has found both."""
    source = open_source(source)
    for evaluation in (True, False):
        if isinstance(source, Records):
            _check_shards(source, evaluation)
        else:
            _first_document(source.documents(source.files), held_out, evaluation)


def text_documents(
    source: TextSource,
    tokenizer: BertTokenizer,
    seed: int,
    epochs: int | Callable[[], Iterable[int]] | None,
    evaluation: bool,
    held_out: float,
    visit: Callable[[int], int] = lambda epoch: epoch,
) -> Callable[..., Iterator[tuple[int, int, list[str]]]]:
    """A function that starts an iterator over (epoch, number, sentences) of the training or held-out documents.

    Epochs of the same `visit` have the files in the same order, and so the same numbers and pools of documents.
    """
    files = source.files
    document = _first_document(source.documents(files), held_out, evaluation)

    def documents(epochs=epochs):
        if callable(epochs):
            numbers = epochs()
        else:
            numbers = itertools.count() if epochs is None else range(epochs)
        for epoch in numbers:
            order = files if evaluation else file_order(files, seed, visit(epoch))
            for number, sentences in enumerate(source.documents(order)):
                if is_held_out(sentences, held_out) == evaluation:
                    yield epoch, number, sentences

    if not _has_token(document, functools.partial(documents, 1), tokenizer):
        received = files[0] if len(files) == 1 else f"{len(files):,} files, the first {files[0]}"
        raise ValueError(
            f"Expected at least one token in the documents {_KINDS[evaluation]}. Received: {received}, where the "
            "tokenizer drops every character of them"
        )
    return documents


def file_order(files: Sequence[str], seed: int, epoch: int) -> list[str]:
    """The files of an epoch in the order of the seed."""
    # Not NumPy's generator: its streams may change with its version.
    key = {file: hashlib.blake2b(f"{seed}/{epoch}/{i}".encode()).digest() for i, file in enumerate(files)}
    return sorted(files, key=key.get)


def _first_document(documents, held_out, evaluation):
    """The first document for training or evaluation; raises ValueError if there is none."""
    if evaluation and not held_out:
        raise ValueError("Evaluation needs held-out documents. Received: held_out=0 (--held-out 0)")
    count = 0
    lowest = math.inf
    highest = 0
    for document in documents:
        if is_held_out(document, held_out) == evaluation:
            return document
        rank = held_out_rank(document) / 2.0**64
        count = count + 1
        lowest = min(lowest, rank)
        highest = max(highest, rank)
    if lowest == highest:
        raise NoDocuments(_one_document(count))
    enough = (math.floor(100 * lowest) + 1) / 100  # holds out the document with the lowest rank
    if not evaluation:
        advice = "Give a smaller fraction (--held-out)"
    elif enough <= highest:
        advice = f"Give a larger fraction, such as {enough} (--held-out {enough})"
    else:
        advice = "Give more documents: one at least is for training, and one for evaluation"
    raise NoDocuments(f"None of {count:,} documents is {_KINDS[evaluation]} at held_out={held_out}. {advice}.")


def _one_document(count):
    received = "one document" if count == 1 else f"{count:,} documents with the same text"
    return (
        f"Expected documents for training and others to hold out. Received: {received}. A file of prose is one "
        "document: split it into several files, such as one for each chapter (docs/corpora.md)."
    )


def _has_token(first, documents, tokenizer):
    """Whether any document has a token, where every epoch would be empty otherwise; nearly always `first` shows it."""
    if tf.size(tokenizer.call(tf.constant(first[0].encode("utf-8", "replace")))):
        return True
    with reading_errors():
        return any(pool.token_ids.size for _, _, pool in text_pools(documents, tokenizer).as_numpy_iterator())


def record_pools(
    records: Records,
    seed: int,
    epochs: int | None,
    evaluation: bool,
    count_rows: Callable[[TokenPool, tf.Tensor], tf.Tensor],
    rows_before: int,
) -> tuple[tf.data.Dataset, int]:
    """The pools of records, from the one on that row `rows_before` is in, without reading the tokens before it.

    `count_rows` gives the rows of (pool without tokens, epoch). Returns (tf.data.Dataset of (epoch int64, `TokenPool`),
    how many rows of its first pool come before that row).
    """
    shards = _check_shards(records, evaluation)

    def epoch_and_shard(position):
        epoch = position // shards
        number = tf.cast(position % shards, tf.int32)
        return epoch, number if evaluation else permutation(fold_in(seed, _SHARDS, epoch), shards)[number]

    def count(position):
        epoch, shard = epoch_and_shard(position)
        return count_rows(records.index(shard, evaluation), epoch)

    first = 0
    last = shards * epochs if epochs is not None else _FOREVER
    if rows_before:
        counts = tf.data.Dataset.range(last).map(_graph(count), num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        with reading_errors():
            for first, rows in enumerate(counts.as_numpy_iterator()):  # noqa: B007 - used below
                if rows_before < rows:
                    break
                rows_before -= int(rows)
            else:
                first = last
    positions = tf.data.Dataset.range(first, last)

    def load(position):
        epoch, shard = epoch_and_shard(position)
        return epoch, records.pool(shard, evaluation)

    calls = pools_at_once(records.pool_bytes(evaluation))
    return positions.map(_graph(load), num_parallel_calls=calls, deterministic=True), rows_before


def _check_shards(records, evaluation):
    """The number of shards for training or evaluation; raises ValueError if there are none."""
    if shards := len(records.held_out if evaluation else records.training):
        return shards
    count = records.manifest["counts"]["documents"]
    if count == 1:
        raise ValueError(f"{records.directory}: {_one_document(count)}")
    advice = f"--held-out {sufficient_fraction(count)}" if evaluation else "a smaller --held-out"
    raise ValueError(
        f"{records.directory}: none of its {count:,} documents is {_KINDS[evaluation]} at held_out="
        f"{records.manifest['settings']['held_out']}. Prepare the records again with {advice} --overwrite."
    )


def held_out_fractions(records: Records, count_rows: Callable[[TokenPool, int], tf.Tensor], wanted: int) -> np.ndarray:
    """How many rows each shard of held-out records gives, so that `wanted` of them stand for all of its documents.

    A shard may be a single book: the first rows in the order of the shards would be a sample of one text. int32
    [shards], at most what the shards have.
    """
    rows = np.array([count_rows(records.index(shard, True), 0) for shard in range(len(records.held_out))], np.int64)
    ends = np.cumsum(rows)
    if ends[-1] > wanted:
        ends = ends * wanted // ends[-1]
    return np.diff(ends, prepend=0).astype(np.int32)
