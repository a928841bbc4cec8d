"""Documents → a records directory: tokenised, mixed, divided into shards.

Shapes: n sentences, t tokens of a document.
"""

import hashlib
import itertools
import json
import logging
import os
import platform
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbert.checks import check_directory, differing, shown
from kbert.corpus.beam import delete_shared
from kbert.corpus.held_out import is_held_out
from kbert.corpus.pool import TokenPool, text_pools
from kbert.corpus.records import Records, vocabulary_hash
from kbert.corpus.records_manifest import (
    FORMAT,
    KINDS,
    MANIFEST,
    UNFINISHED,
    VOCABULARY,
    check_signature,
    read_manifest,
    signed,
    token_type,
)
from kbert.files import atomic_file, is_partial, read_json, remove_partial, sha256, to_json
from kbert.locks import LOCK
from kbert.options import Count, FractionBelowOne, Natural, ShardTokens, checked
from kbert.stateless_random import fold_in, permutation
from kbert.text.vocabulary import resolve_settings, write_vocabulary
from kbert.versions import versions

if TYPE_CHECKING:
    from kbert.text.tokenizer import BertTokenizer


SHARD_TOKENS = 1 << 20
SHUFFLE_SHARDS = 16
_LOGGER = logging.getLogger("kbert")
_SECONDS = 5.0  # between two lines of progress
PACKAGES = ("tensorflow", "tensorflow-text", "sentencex", "numpy")  # which decide the tokens
SHARED = "partial"  # what workers of a pipeline have finished
_STATE = (MANIFEST, UNFINISHED, VOCABULARY)
_SHARD = re.compile(rf"({'|'.join(KINDS.values())})-\d{{5,}}\.(tokens|index)")
_AGAIN = "Give `overwrite` to start again."
_OTHERS = ("settings.json", "inputs.json", "metrics.json", LOCK, SHARED)


@checked
def write_records(
    documents: Iterable[Sequence[str]],
    tokenizer: "BertTokenizer",
    directory: str | os.PathLike,
    *,
    shard_tokens: ShardTokens = SHARD_TOKENS,
    shuffle_shards: Count = SHUFFLE_SHARDS,
    held_out: FractionBelowOne = 0.01,
    seed: Natural = 0,
    settings: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Records:
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
        shard_tokens: about how many tokens a shard has. Training holds a shard per core in memory, but at most 1 GiB of
            them (or two, if they are larger).
        shuffle_shards: how many shards are filled at a time, in memory.
        held_out: fraction of the documents set aside for evaluation, in [0, 1). Each document's text decides.
        seed: for the order of the documents.
        settings: JSON-able description of the corpus, for the manifest. An unfinished run with other settings is not
            resumed.
        overwrite: whether to delete existing records, finished or not.

    Raises:
        ValueError: the directory holds other files, or records with other settings. There are no documents, or none for
            training. A fraction or size is invalid.

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
        write_shards(writer, iter(documents))
    return Records(directory)


def write_shards(writer: "RecordsWriter", documents: Iterator[Sequence[str]]) -> None:
    """Writes the shards of the documents that an open writer does not have yet, and the manifest."""
    start = writer.done["documents_read"]
    held = set()

    def numbered():
        for number, sentences in enumerate(itertools.islice(documents, start, None), start):
            _check_document(number, sentences)
            if is_held_out(sentences, writer.held_out):
                held.add(number)
            yield number, sentences

    begin = time.monotonic()
    tokens = 0
    read = start
    logged = begin
    gathered = []
    for read, pool in text_pools(numbered(), writer.tokenizer):
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
            _write_round(writer, gathered, held, read)
            gathered = []
    if gathered:
        _write_round(writer, gathered, held, read)
    writer.write_manifest()


def _write_round(writer, pools, held, documents_read):
    documents = [
        (tokens.astype(writer.token_type), lengths) for pool in pools for tokens, lengths in pool_documents(pool)
    ]
    is_held_out = [number in held for pool in pools for number in pool.document_ids.tolist()]
    for shard in writer.shards_of_round(documents, is_held_out, writer.done["rounds"]):
        writer.add_shard(*shard)
    writer.done["rounds"] += 1
    writer.done["documents_read"] = documents_read
    writer.save_state()


def _check_document(number, sentences):
    if not isinstance(sentences, list | tuple):
        raise ValueError(f"documents[{number}]: expected a list of sentences. Received: {shown(sentences)}")
    for position, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise ValueError(f"documents[{number}][{position}]: expected str. Received: {shown(sentence)}")


class RecordsWriter:
    """A records directory while it is written: what is there already, its next shard, its manifest.

    Attributes:
        made_by: vocabulary, tokenizer and settings, as in the manifest.
        done: ``documents_read``, ``rounds`` and ``shards``, which unfinished.json records.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        tokenizer: "BertTokenizer",
        *,
        shard_tokens: int,
        shuffle_shards: int,
        held_out: float,
        seed: int,
        settings: Mapping[str, Any] | None,
    ):
        self.directory = check_directory(directory, "write_records: `directory`")
        self.tokenizer = tokenizer
        self.shard_tokens, self.shuffle_shards, self.held_out, self.seed = shard_tokens, shuffle_shards, held_out, seed
        division = {"shard_tokens": shard_tokens, "shuffle_shards": shuffle_shards, "held_out": held_out, "seed": seed}
        self.token_type = token_type(tokenizer.vocabulary_size)
        self.made_by = {
            "vocabulary": {"size": tokenizer.vocabulary_size, "sha256": vocabulary_hash(tokenizer.vocabulary)},
            "tokenizer": tokenizer.settings(),
            "settings": {**division, **(settings or {})},
        }
        self.done = {"documents_read": 0, "rounds": 0, "shards": []}

    def open(self, overwrite: bool) -> bool:
        """Checks the directory; returns whether the records are already complete."""
        names = sorted(path.name for path in self.directory.iterdir()) if self.directory.exists() else []
        partial = [name for name in names if is_partial(name)]
        ours = [name for name in names if name in _STATE or _SHARD.fullmatch(name)]
        if ours == [VOCABULARY]:  # alone it is not of records, and may be the only copy
            ours = []
        others = sorted(set(names) - set(ours) - set(partial) - set(_OTHERS))
        if others:
            raise ValueError(
                f"{self.directory} holds other files ({', '.join(others[:3])}). Records need a directory of their own."
            )
        if partial:
            remove_partial(self.directory)
        if overwrite:
            for name in sorted(ours, key=lambda name: name not in _STATE):  # first the files that mark it as records
                (self.directory / name).unlink()
            delete_shared(self.directory / SHARED)
            return False
        if not ours:
            return False
        finished = MANIFEST in ours and UNFINISHED not in ours  # with both it was killed at its very end
        stored = read_manifest(self.directory) if finished else self._read_unfinished()
        if differing(_resolved(stored), _resolved(self.made_by)):
            raise ValueError(
                f"{self.directory} holds {'records' if finished else 'an unfinished run'} with other settings: "
                f"{_difference(stored, self.made_by)}. Give the same settings, another directory, or `overwrite`."
            )
        if not finished:
            self._check_done(stored["done"])
            self.done = stored["done"]
        return finished

    def _read_unfinished(self):
        path = self.directory / UNFINISHED
        try:
            state = read_json(path)
        except FileNotFoundError:  # `overwrite` was killed before it had deleted all shards
            raise ValueError(f"{path} is missing beside what is left of records. {_AGAIN}") from None
        except ValueError as error:
            raise ValueError(f"{error} {_AGAIN}") from None
        check_signature(state, path, _AGAIN)
        return state

    def _check_done(self, done):
        """Checks that the completed shards still are, which is cheap compared with tokenising."""
        for shard in done["shards"]:
            for suffix in ("tokens", "index"):
                path = self.directory / f"{shard['name']}.{suffix}"
                if not path.is_file() or sha256(path) != shard[f"{suffix}_sha256"]:
                    raise ValueError(f"{path} is missing or damaged. {_AGAIN}")

    def counts(self, gathered: Sequence[TokenPool] = ()) -> dict[str, int]:
        """Documents, sentences and tokens of the shards that are written, and of the pools `gathered`."""
        counts = {key: sum(s[key] for s in self.done["shards"]) for key in ("documents", "sentences", "tokens")}
        counts["documents"] += sum(len(pool.document_ids) for pool in gathered)
        counts["sentences"] += sum(len(pool.sentence_lengths) for pool in gathered)
        counts["tokens"] += sum(len(pool.token_ids) for pool in gathered)
        return counts

    def shards_of_round(
        self, documents: Sequence[tuple], is_held_out: Sequence[bool], number: int
    ) -> Iterator[tuple[bool, dict[str, bytes], dict]]:
        """Yields (held out, files, facts) of the shards of a round, first those for training.

        A round is the documents that are shuffled together, each (token ids [t], lengths of its sentences [n]).
        """
        order = permutation(fold_in(self.seed, number), len(documents)).numpy().tolist()
        for held_out in KINDS:
            chosen = [documents[i] for i in order if bool(is_held_out[i]) == held_out]
            for part in _divide(chosen, self.shard_tokens):
                yield held_out, *_shard(part, self.token_type)

    def save_state(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        _write_file(self.directory / UNFINISHED, json.dumps(signed({**self.made_by, "done": self.done})).encode())

    def add_shard(self, held_out: bool, files: Mapping[str, bytes], facts: Mapping[str, Any]) -> None:
        """Writes the files (suffix → content) of the next shard; `facts` are its counts and hashes."""
        shards = self.done["shards"]
        name = f"{KINDS[held_out]}-{sum(s['held_out'] == held_out for s in shards):05d}"
        for suffix, content in files.items():
            _write_file(self.directory / f"{name}.{suffix}", content)
        first = sum(s["documents"] for s in shards)
        shards.append({"name": name, "held_out": held_out, "first_document": first, **facts})

    def write_manifest(self) -> None:
        """Writes the manifest, which marks the records as complete; ValueError without a training shard."""
        if not self.done["shards"]:
            raise ValueError("The corpus has no document with a token: there is nothing to write.")
        if all(shard["held_out"] for shard in self.done["shards"]):
            raise ValueError(
                f"All {self.done['documents_read']:,} documents are held out at held_out={self.held_out}, none is "
                "for training. Give a smaller fraction, or more documents."
            )
        manifest = signed(
            {
                "format": FORMAT,
                "token_type": self.token_type,
                **self.made_by,
                "counts": self.counts(),
                "versions": {"python": platform.python_version(), **versions(PACKAGES)},
                "shards": self.done["shards"],
            }
        )
        write_vocabulary(self.directory / VOCABULARY, self.tokenizer.vocabulary)
        _write_file(self.directory / MANIFEST, to_json(manifest, indent=1).encode())
        (self.directory / UNFINISHED).unlink(missing_ok=True)
        delete_shared(self.directory / SHARED)


def _write_file(path, content):
    with atomic_file(path, "wb") as file:
        file.write(content)


def _resolved(made_by):
    """The settings that define the records; two spellings of one tokenizer setting become equal."""
    tokenizer = resolve_settings(made_by["tokenizer"])
    return {"vocabulary": made_by["vocabulary"], "tokenizer": tokenizer, "settings": made_by["settings"]}


def _difference(stored, received):
    stored, received = (
        {**part.get("settings", {}), **part.get("tokenizer", {}), "vocabulary": part.get("vocabulary")}
        for part in (stored, received)
    )
    return ", ".join(
        f"{name}={stored.get(name)!r}, received {received.get(name)!r}" for name in differing(stored, received)
    )


def pool_documents(pool: TokenPool) -> list[tuple]:
    """(token ids [t], lengths of the sentences [n]) of each document of a `TokenPool` of arrays."""
    splits = np.concatenate([[0], np.cumsum(pool.sentence_lengths, dtype=np.int64)])
    return [
        (pool.token_ids[splits[first] : splits[last]], pool.sentence_lengths[first:last])
        for first, last in itertools.pairwise(pool.document_splits)
    ]


def _shard(documents, kind) -> tuple[dict[str, bytes], dict]:
    """The content of a shard's files, by suffix, and its counts and hashes as the manifest has them."""
    tokens = np.concatenate([tokens for tokens, _ in documents])
    lengths = np.concatenate([lengths for _, lengths in documents])
    sizes = [len(lengths) for _, lengths in documents]
    index = np.concatenate([[len(lengths), len(sizes)], lengths, sizes]).astype("<i4")
    files = {"tokens": tokens.astype(np.dtype(kind).newbyteorder("<")).tobytes(), "index": index.tobytes()}
    facts = {"documents": len(sizes), "sentences": len(lengths), "tokens": len(tokens)}
    hashes = {f"{suffix}_sha256": hashlib.sha256(content).hexdigest() for suffix, content in files.items()}
    return files, facts | hashes


def _divide(documents, shard_tokens):
    """Cuts a list of documents into shards of about equal numbers of tokens."""
    if not documents:
        return []
    sizes = np.array([len(tokens) for tokens, _ in documents])
    middles = np.cumsum(sizes) - (sizes + 1) // 2
    shards = max(1, round(int(sizes.sum()) / shard_tokens))
    number = middles * shards // sizes.sum()  # of the shard that each document's middle falls in
    return [[documents[i] for i in np.flatnonzero(number == shard)] for shard in np.unique(number)]
