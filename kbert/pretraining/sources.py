"""Where the documents of a pre-training dataset come from: text or records, for training or evaluation."""

import functools
import hashlib
import itertools

import numpy as np
import tensorflow as tf

from kbert.checks import check_numbers
from kbert.corpus.corpus_files import find_files
from kbert.corpus.document_list import DocumentList
from kbert.corpus.documents import iterate_documents
from kbert.corpus.pool import is_held_out, sufficient_share, text_pools
from kbert.corpus.reading_errors import reading_errors
from kbert.stateless_random import fold_in, permutation

_SHARDS = 2  # keeps this draw independent of other uses of the same seed
_FOREVER = 2**62
_graph = tf.autograph.experimental.do_not_convert  # nothing here is Python control flow over tensors; halves the start


def text_documents(source, tokenizer, format, language, seed, epochs, evaluation, held_out):
    """A function that starts an iterator over (epoch, number, sentences) of the training or held-out documents.

    Raises:
        ValueError: no or empty files, an invalid share, no document for training or evaluation, or none with a token.
    """
    files, read = _files_and_reader(source, format, language)
    check_numbers("pretraining_dataset", "[0, 1)", held_out=held_out)
    if evaluation and not held_out:
        raise ValueError("Evaluation needs held-out documents. Received: held_out=0")
    count, kind = 0, "held out" if evaluation else "for training"
    for document in read(files):
        count += 1
        if is_held_out(document, held_out) == evaluation:
            break
    else:
        advice = _larger_share(count) if evaluation else "a smaller share"
        raise ValueError(f"None of {count:,} documents is {kind} at held_out={held_out}. Give {advice}.")

    def order(epoch):
        # Not NumPy's generator: its streams may change with its version.
        key = {file: hashlib.blake2b(f"{seed}/{epoch}/{i}".encode()).digest() for i, file in enumerate(files)}
        return files if evaluation else sorted(files, key=key.get)

    def documents(epochs=epochs):
        for epoch in itertools.count() if epochs is None else range(epochs):
            for number, sentences in enumerate(read(order(epoch))):
                if is_held_out(sentences, held_out) == evaluation:
                    yield epoch, number, sentences

    if not _has_token(document, functools.partial(documents, 1), tokenizer):
        received = files[0] if len(files) == 1 else f"{len(files):,} files, the first {files[0]}"
        raise ValueError(
            f"Expected at least one token in the documents {kind}. Received: {received}, where the tokenizer drops "
            "every character of them"
        )
    return documents


def _has_token(first, documents, tokenizer):
    """Whether any document has a token, where every epoch would be empty otherwise; nearly always `first` shows it."""
    if tf.size(tokenizer.call(tf.constant(first[0].encode("utf-8", "replace")))):
        return True
    with reading_errors():
        return any(pool.token_ids.size for _, _, pool in text_pools(documents, tokenizer).as_numpy_iterator())


def _files_and_reader(source, format, language):
    """The files of a corpus, and the function from them to their documents; those in memory are one file."""
    if isinstance(source, DocumentList):
        return [source], itertools.chain.from_iterable
    return find_files(source), lambda files: iterate_documents(files, format, language)


def record_pools(records, seed, epochs, evaluation, count_rows, rows_before):
    """The pools of records, from the one on that a row is in, without reading the tokens before it.

    Args:
        seed, epochs, evaluation: see `pretraining_dataset`.
        count_rows: function (pool without tokens, epoch) -> int scalar tensor, the rows that a pool gives.
        rows_before: int, the number of the row, over all pools.

    Returns:
        (tf.data.Dataset of (epoch int64, `TokenPool`), how many rows of its first pool come before that row).
    """
    shards = len(records.held_out if evaluation else records.training)
    if not shards:
        count = records.manifest["counts"]["documents"]
        kind, advice = ("held-out", _larger_share(count)) if evaluation else ("training", "a smaller share")
        raise ValueError(
            f"{records.directory}: none of its {count:,} documents is a {kind} document at a share of "
            f"{records.manifest['settings']['held_out']}. Prepare the records again with {advice} held out."
        )

    def epoch_and_shard(position):
        epoch, number = position // shards, tf.cast(position % shards, tf.int32)
        return epoch, number if evaluation else permutation(fold_in(seed, _SHARDS, epoch), shards)[number]

    def count(position):
        epoch, shard = epoch_and_shard(position)
        return count_rows(records.index(shard, evaluation), epoch)

    first, last = 0, shards * epochs if epochs is not None else _FOREVER
    if rows_before:
        counts = tf.data.Dataset.range(last).map(_graph(count), num_parallel_calls=2, deterministic=True)
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

    return positions.map(_graph(load), num_parallel_calls=2, deterministic=True), rows_before


def held_out_shares(records, count_rows, wanted):
    """How many rows each shard of held-out records gives, so that `wanted` of them stand for all of its documents.

    A shard may be a single book: the first rows in the order of the shards would be a sample of one text.

    Args:
        records: `Records` with held-out documents.
        count_rows: see `record_pools`.
        wanted: int, the rows of all shards together.

    Returns:
        int32 [shards], at most what the shards have, with a sum of `wanted` or all rows if there are fewer.
    """
    rows = np.array([count_rows(records.index(shard, True), 0) for shard in range(len(records.held_out))], np.int64)
    ends = np.cumsum(rows)
    if ends[-1] > wanted:
        ends = ends * wanted // ends[-1]
    return np.diff(ends, prepend=0).astype(np.int32)


def _larger_share(documents):
    return f"a larger share, such as {sufficient_share(documents)}"
