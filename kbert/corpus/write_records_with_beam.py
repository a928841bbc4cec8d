"""Files of a corpus → a records directory, by an Apache Beam pipeline: the bytes that `write_records` writes.

    files ─► tokenised files ─► plan of rounds ─► shards of a round ─► records directory
    one worker a file           one worker        one worker a round   the starting program

Workers hand each other files in a directory that all of them share; only numbers pass through the pipeline.

Shapes: d documents and n sentences of a file.
"""

import functools
import hashlib
import itertools
import json
import logging
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from kbert.corpus.beam import SharedDirectory, import_beam, load_once, run_beam
from kbert.corpus.documents import check_format, file_documents, raise_no_sentences, report_formats
from kbert.corpus.held_out import is_held_out
from kbert.corpus.pool import TokenPool, pool_function, pool_is_full, text_chunks
from kbert.corpus.records import Records
from kbert.corpus.write_records import PACKAGES, SHARED, RecordsWriter, pool_documents
from kbert.errors import SetupError, UnreadableInput
from kbert.options import Count, FractionBelowOne, Natural, ShardTokens, checked
from kbert.text.tokenizer import BertTokenizer
from kbert.versions import versions

_LOGGER = logging.getLogger("kbert")
_PLAN = "plan.json"


@checked
def write_records_with_beam(
    files: Sequence[str | os.PathLike],
    tokenizer: BertTokenizer,
    directory: str | os.PathLike,
    *,
    runner: str,
    beam_flags: Sequence[str] = (),
    shared: str | os.PathLike | None = None,
    format: str = "auto",
    language: str = "en",
    shard_tokens: ShardTokens = 1 << 20,
    shuffle_shards: Count = 16,
    held_out: FractionBelowOne = 0.01,
    seed: Natural = 0,
    settings: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Records:
    """Tokenises the files of a corpus on the workers of an Apache Beam runner and writes them as `Records`.

    The records are, byte for byte, those of ``write_records(iterate_documents(files, format, language), …)``, however
    many workers there are. Workers take a file of the corpus at a time, and then a round: documents of `shuffle_shards`
    × `shard_tokens` tokens that are shuffled together. The starting program copies the shards to `directory`, whose
    manifest appears last. A killed run starts again after its last complete files and rounds.

    Args:
        files: paths, as `kbert.corpus.find_files` gives. Workers read them under these paths.
        tokenizer: see `write_records`.
        directory: where to write; made if needed.
        runner: a name that Apache Beam knows, such as ``DirectRunner`` or ``FlinkRunner``.
        beam_flags: Beam's own flags, such as ``--direct_num_workers=4``.
        shared: a directory that all workers see under this path. Until the end it holds a little more than twice the
            bytes of the records. None: one within `directory`.
        format, language: see `kbert.corpus.read_documents`.
        shard_tokens, shuffle_shards, held_out, seed, settings, overwrite: see `write_records`.

    Raises:
        ValueError: what `write_records` refuses, an unknown runner, or an unfinished run that was started without a
            runner.
        UnreadableInput: a file is damaged.
        RuntimeError: Apache Beam is not installed or the pipeline failed. Workers do not see `shared`, or have other
            versions of the packages that decide the tokens.

    Example::

        write_records_with_beam(find_files("wiki/*.gz"), tokenizer, "records", runner="DirectRunner")
    """
    import_beam()
    check_format(format)
    arguments = {"shard_tokens": shard_tokens, "shuffle_shards": shuffle_shards, "held_out": held_out, "seed": seed}
    writer = RecordsWriter(directory, tokenizer, settings=settings, **arguments)
    if writer.open(overwrite):
        return Records(directory)
    if writer.done["rounds"]:
        raise ValueError(
            f"{directory} holds an unfinished run that was started without a runner. Finish it without one, or give "
            "`overwrite` or another directory."
        )
    job = _Job(files, tokenizer, format, language, arguments, writer.made_by)
    place = pathlib.Path(directory).absolute() / SHARED if shared is None else pathlib.Path(shared).absolute()
    job.shared = SharedDirectory(place / job.name)
    writer.save_state()
    job.shared.open()
    run_beam(runner, beam_flags, functools.partial(_build, job=job))
    job.shared.raise_reported(UnreadableInput)
    _assemble(job, writer)
    job.shared.delete()
    return Records(directory)


class _Job:
    """What every worker must know; it is pickled, so it holds no tensors."""

    shared: SharedDirectory

    def __init__(self, files, tokenizer, format, language, arguments, made_by):
        self.files = [os.fspath(file) for file in files]
        self.format = format
        self.language = language
        self.vocabulary = tokenizer.vocabulary
        self.tokenizer_settings = tokenizer.settings()
        self.arguments = arguments
        self.versions = versions(PACKAGES)
        identity = [(path, os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in self.files]
        content = json.dumps([identity, format, language, made_by, self.versions], sort_keys=True)
        self.name = "records-" + hashlib.sha256(content.encode()).hexdigest()[:16]

    def loaded(self):
        """The `RecordsWriter`, for its settings, and the function that tokenises, once in each process."""
        return load_once(self.name, self._load)

    def _load(self):
        self.shared.check()
        if (own_versions := versions(PACKAGES)) != self.versions:
            raise SetupError(f"Expected workers with the versions {self.versions}. Received: {own_versions}.")
        tokenizer = BertTokenizer(self.vocabulary, **self.tokenizer_settings)
        return RecordsWriter(self.shared.path, tokenizer, settings=None, **self.arguments), pool_function(tokenizer)


def _build(pipeline, job):
    beam = import_beam()
    (
        pipeline
        | "files" >> beam.Create(range(len(job.files)))
        | "share out files" >> beam.Reshuffle()
        | "tokenize" >> beam.Map(functools.partial(_tokenize_file, job))
        | "gather" >> beam.Map(_with_one_key)
        | "wait for all files" >> beam.GroupByKey()
        | "plan" >> beam.FlatMap(functools.partial(_plan, job))
        | "share out rounds" >> beam.Reshuffle()
        | "write shards" >> beam.Map(functools.partial(_write_round, job))
    )


def _with_one_key(number):
    return 0, number


def _tokenize_file(job, number):
    """Writes the tokens of a file, the lengths of its sentences and, last, numbers for each document."""
    writer, tokenize = job.loaded()
    shared = job.shared
    if shared.exists(_name(number, "documents")) or shared.failed():
        return number
    sentences, sizes, held = [], [], []  # of each document
    formats = []  # of each text

    def numbered():
        documents = file_documents(job.files[number], job.format, job.language, formats)
        for position, document in enumerate(documents):
            sentences.append(len(document))
            sizes.append(sum(len(sentence.encode("utf-8", "replace")) for sentence in document))
            held.append(is_held_out(document, writer.held_out))
            yield position, document

    kept, tokens = [], []  # sentences and tokens of each document that are left after tokenising
    with shared.reporting(number):
        with (
            shared.writing(_name(number, "tokens")) as token_file,
            shared.writing(_name(number, "lengths")) as lengths_file,
        ):
            for texts in text_chunks(numbered()):
                pool = TokenPool(*(tensor.numpy() for tensor in tokenize(*map(tf.constant, texts))))
                documents = dict(zip(pool.document_ids.tolist(), pool_documents(pool), strict=True))
                for document in texts[-1].tolist():
                    ids, lengths = documents.get(document, ((), ()))
                    kept.append(len(lengths))
                    tokens.append(len(ids))
                token_file.write(pool.token_ids.astype(_little(writer.token_type)).tobytes())
                lengths_file.write(pool.sentence_lengths.astype("<i4").tobytes())
        shared.write_json(_name(number, "formats"), formats)
        counts = np.array([sentences, sizes, held, kept, tokens], "<i8")  # [5, d]
        shared.write(_name(number, "documents"), counts.tobytes())  # with which the others are taken for complete
    return number


def _plan(job, element):
    """Divides the documents of all files into rounds, as one process does that reads one file after the other."""
    shared = job.shared
    if shared.failed():
        return
    assert sorted(element[1]) == list(range(len(job.files)))
    counts = [_counts(shared, number) for number in range(len(job.files))]
    columns = np.concatenate(counts, axis=1)
    rounds = plan_rounds(
        columns[0].tolist(),
        columns[1].tolist(),
        columns[4].tolist(),
        job.arguments["shard_tokens"] * job.arguments["shuffle_shards"],
    )
    first_documents = np.cumsum([0, *(part.shape[1] for part in counts)])
    shared.write_json(_PLAN, {"documents": columns.shape[1], "rounds": len(rounds)})
    for number, (first, last) in enumerate(rounds):
        parts = [
            (file, max(first - start, 0), min(last, end) - start)  # documents of each file
            for file, (start, end) in enumerate(itertools.pairwise(first_documents.tolist()))
            if start < last and first < end
        ]
        yield number, parts


def _write_round(job, element):
    """Writes the shards of a round, and, last, what they are."""
    number, parts = element
    writer, _ = job.loaded()
    shared = job.shared
    if shared.exists(_round(number)):
        return number
    documents = []
    held = []
    shards = []
    for part in parts:
        for document, is_held in _read_documents(shared, *part, writer.token_type):
            documents.append(document)
            held.append(is_held)
    for position, (held_out, files, facts) in enumerate(writer.shards_of_round(documents, held, number)):
        for suffix, content in files.items():
            shared.write(f"round-{number:05d}-{position:05d}.{suffix}", content)
        shards.append({"held_out": held_out, **facts})
    shared.write_json(_round(number), shards)
    return number


def _read_documents(shared, file, first, last, kind):
    """((token ids, lengths of sentences), whether held out) of some documents of a file that are not empty."""
    _, _, held, kept, tokens = _counts(shared, file)

    def column(suffix, dtype, ends):
        size = np.dtype(dtype).itemsize
        part = shared.read_part(_name(file, suffix), int(ends[first]) * size, int(ends[last] - ends[first]) * size)
        return np.split(np.frombuffer(part, dtype), ends[first + 1 : last] - ends[first])

    lengths = column("lengths", "<i4", np.cumsum([0, *kept]))
    token_ids = column("tokens", _little(kind), np.cumsum([0, *tokens]))
    for document in range(first, last):
        if kept[document]:
            yield (token_ids[document - first], lengths[document - first]), bool(held[document])


def _assemble(job, writer):
    """Copies the shards into the records directory in order, and the manifest last."""
    shared = job.shared
    plan = shared.read_json(_PLAN)
    if not plan["documents"]:
        raise_no_sentences(job.files, job.format)
    report_formats([tuple(text) for n in range(len(job.files)) for text in shared.read_json(_name(n, "formats"))])
    for number in range(plan["rounds"]):
        for position, facts in enumerate(shared.read_json(_round(number))):
            held_out = facts.pop("held_out")
            names = {suffix: f"round-{number:05d}-{position:05d}.{suffix}" for suffix in ("tokens", "index")}
            files = {suffix: shared.read(name) for suffix, name in names.items()}
            writer.add_shard(held_out, files, facts)
    writer.done |= {"rounds": plan["rounds"], "documents_read": plan["documents"]}
    writer.write_manifest()
    _LOGGER.info("%s", ", ".join(f"{count:,} {name}" for name, count in writer.counts().items()))


def _counts(shared, file):
    """Sentences, bytes, held out, kept sentences and tokens of each document of a file: int64 [5, d]."""
    return np.frombuffer(shared.read(_name(file, "documents")), "<i8").reshape(5, -1)


def _name(file, suffix):
    return f"file-{file:06d}.{suffix}"


def _round(number):
    return f"round-{number:05d}.json"


def _little(kind):
    return np.dtype(kind).newbyteorder("<")


def plan_rounds(
    sentences: Sequence[int], sizes: Sequence[int], tokens: Sequence[int], round_tokens: int
) -> list[tuple[int, int]]:
    """Where rounds end, as [(first document, last document + 1), …], if `text_pools` gathers the documents.

    `sizes` are bytes of text. A round ends with the first pool with which it has `round_tokens` tokens.
    """
    ends = []
    pool_sentences = pool_bytes = pool_tokens = gathered = 0
    for number, (count, size, document_tokens) in enumerate(zip(sentences, sizes, tokens, strict=True)):
        if pool_sentences and pool_is_full(pool_sentences, pool_bytes):
            gathered += pool_tokens
            pool_sentences = pool_bytes = pool_tokens = 0
            if gathered >= round_tokens:
                ends.append(number)
                gathered = 0
        pool_sentences += count
        pool_bytes += size
        pool_tokens += document_tokens
    return list(itertools.pairwise([0, *ends, len(sentences)])) if sentences else []
