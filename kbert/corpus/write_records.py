"""Documents → a records directory: tokenised, mixed, divided into shards."""

import itertools
import logging
import time

from kbert.checks import shown
from kbert.corpus.pool import is_held_out, text_pools
from kbert.corpus.reading_errors import reading_errors
from kbert.corpus.records import Records
from kbert.corpus.records_writer import RecordsWriter
from kbert.corpus.shards import pool_documents

_LOGGER = logging.getLogger("kbert")
_SECONDS = 5.0  # between two lines of progress


def write_records(
    documents,
    tokenizer,
    directory,
    *,
    shard_tokens=1 << 20,
    shuffle_shards=16,
    held_out=0.01,
    seed=0,
    settings=None,
    overwrite=False,
):
    """Tokenises documents once and writes them as `Records`.

    Documents are collected until they fill `shuffle_shards` shards, shuffled, and written. So each shard, within which
    pairs are drawn and instances shuffled, has documents from distant parts of the corpus. Progress is logged.

    Files are written under a temporary name and renamed. A killed run leaves complete shards and unfinished.json.
    Called again in the same way, it reads the documents again, tokenises those that are left, and ends with the bytes
    of an unbroken run. If the records are complete, nothing is done.

    Args:
        documents: iterable of documents (lists of str) that are equal each time, as `kbert.corpus.read_documents`
            gives.
        tokenizer: `kbert.BertTokenizer`; its vocabulary and settings are stored with the records.
        directory: where to write; made if needed.
        shard_tokens: about how many tokens a shard has. Training holds one shard in memory.
        shuffle_shards: how many shards are filled at a time, in memory.
        held_out: share of the documents set aside for evaluation, in [0, 1). Each document's text decides.
        seed: int, for the order of the documents.
        settings: JSON-able description of the corpus, for the manifest. An unfinished run with other settings is not
            resumed.
        overwrite: whether to delete existing records, finished or not.

    Raises:
        ValueError: the directory holds other files, or records with other settings. There are no documents, or none for
            training. A share or size is invalid.

    Example::

        tokenizer = kbert.BertTokenizer("vocab.txt")
        write_records(read_documents("wiki/*.gz"), tokenizer, "records", held_out=0.001)
    """
    writer = RecordsWriter(
        directory,
        tokenizer,
        shard_tokens=shard_tokens,
        shuffle_shards=shuffle_shards,
        held_out=held_out,
        seed=seed,
        settings=settings,
    )
    if not writer.open(overwrite):
        with reading_errors():
            _write(writer, iter(documents))
    return Records(directory)


def _write(writer, documents):
    start = writer.done["documents_read"]
    held = set()

    def numbered():
        for number, sentences in enumerate(itertools.islice(documents, start, None), start):
            _check_document(number, sentences)
            if is_held_out(sentences, writer.held_out):
                held.add(number)
            yield 0, number, sentences

    begin, tokens, read = time.monotonic(), 0, start
    logged = begin
    gathered = []
    for _, read, pool in text_pools(numbered, writer.tokenizer).as_numpy_iterator():
        if not (writer.done["rounds"] or gathered):
            writer.save_state()
        gathered.append(pool)
        tokens += len(pool.token_ids)
        now = time.monotonic()
        if now - logged >= _SECONDS:
            logged = now
            counts = ", ".join(f"{count:,} {name}" for name, count in writer.counts(gathered).items())
            _LOGGER.info("%s, %s tokens/s", counts, f"{tokens / (now - begin):,.0f}")
        if sum(len(pool.token_ids) for pool in gathered) >= writer.shard_tokens * writer.shuffle_shards:
            _write_round(writer, gathered, held, int(read))
            gathered = []
    if gathered:
        _write_round(writer, gathered, held, int(read))
    writer.write_manifest()


def _write_round(writer, pools, held, documents_read):
    documents = [
        (tokens.astype(writer.token_type), lengths) for pool in pools for tokens, lengths in pool_documents(pool)
    ]
    is_held_out = [number in held for pool in pools for number in pool.document_ids.tolist()]
    for shard in writer.shards_of_round(documents, is_held_out, writer.done["rounds"]):
        writer.add_shard(shard.held_out, shard.files, {**shard.counts, **shard.hashes()})
    writer.done["rounds"] += 1
    writer.done["documents_read"] = documents_read
    writer.save_state()


def _check_document(number, sentences):
    if not isinstance(sentences, list | tuple):
        raise ValueError(f"documents[{number}]: expected a list of sentences. Received: {shown(sentences)}")
    for position, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise ValueError(f"documents[{number}][{position}]: expected str. Received: {shown(sentence)}")
