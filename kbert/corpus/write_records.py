"""Documents → a records directory: tokenised, mixed, divided into shards."""

import hashlib
import itertools
import json
import logging
import pathlib
import platform
import time

import numpy as np

from kbert.corpus.pool import is_held_out, text_pools
from kbert.corpus.reading_errors import reading_errors
from kbert.corpus.records import Records, vocabulary_hash
from kbert.corpus.records_manifest import (
    FORMAT,
    KINDS,
    MANIFEST,
    UNFINISHED,
    VOCABULARY,
    check_shards,
    check_signature,
    read_manifest,
    signed,
    token_type,
)
from kbert.files import atomic_file, is_partial, read_json, remove_partial, sha256
from kbert.locks import LOCK
from kbert.stateless_random import fold_in, permutation
from kbert.text.tokenizer import resolve_settings
from kbert.text.vocabulary import write_vocabulary
from kbert.versions import versions

_LOGGER = logging.getLogger("kbert")
_SECONDS = 5.0  # between two lines of progress
_STATE = (MANIFEST, UNFINISHED, VOCABULARY)
_MOST_TOKENS = 1 << 28  # of a shard, which training holds in memory
_RECIPE = ("settings.json", "inputs.json", "metrics.json", LOCK)
_PACKAGES = ("tensorflow", "tensorflow-text", "sentencex", "numpy")


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
    pairs are drawn and instances shuffled, has documents from distant parts of the corpus. Files are written under a
    temporary name and renamed. A killed run leaves complete shards and unfinished.json; the same call resumes
    (documents are read again, not tokenised again) and ends with the same bytes. If the records are complete, it does
    nothing. Progress is logged.

    Args:
        documents: iterable of documents (lists of str), the same each time, as `kbert.corpus.documents.read_documents`
            gives.
        tokenizer: `kbert.BertTokenizer`.
        directory: made if needed.
        shard_tokens: about how many tokens a shard has; one shard is held in memory in training.
        shuffle_shards: how many shards are filled at a time, in memory.
        held_out: share of the documents set aside for evaluation, decided by each document's text.
        seed: of the order of the documents.
        settings: JSON-able description of the corpus, for the manifest; an unfinished run is resumed only if
            it is the same.
        overwrite: delete existing records, finished or not.

    Returns:
        `Records`.

    Raises:
        ValueError: the directory holds other files, or records with other settings; no documents, or none for training;
            an invalid share or size.

    Example::

        write_records(read_documents("wiki/*.gz"), tokenizer, "records")
    """
    if not 0 <= held_out < 1:
        raise ValueError(f"`held_out` must be in [0, 1). Received: {held_out!r}")
    if not 1 <= shard_tokens <= _MOST_TOKENS or shuffle_shards < 1:
        raise ValueError(
            f"`shard_tokens` must be from 1 to {_MOST_TOKENS:,}, `shuffle_shards` at least 1. "
            f"Received: shard_tokens={shard_tokens!r}, shuffle_shards={shuffle_shards!r}"
        )
    writer = _Writer(pathlib.Path(directory), tokenizer, shard_tokens, shuffle_shards, held_out, seed, settings)
    if not writer.open(overwrite):
        with reading_errors():
            writer.write(iter(documents))
    return Records(directory)


class _Writer:
    def __init__(self, directory, tokenizer, shard_tokens, shuffle_shards, held_out, seed, settings):
        self.directory, self.tokenizer = directory, tokenizer
        self.shard_tokens, self.shuffle_shards, self.held_out, self.seed = shard_tokens, shuffle_shards, held_out, seed
        self.token_type = token_type(tokenizer.vocabulary_size)
        self.made_by = {
            "vocabulary": {"size": tokenizer.vocabulary_size, "sha256": vocabulary_hash(tokenizer.vocabulary)},
            "tokenizer": tokenizer.settings(),
            "settings": {
                "shard_tokens": shard_tokens,
                "shuffle_shards": shuffle_shards,
                "held_out": held_out,
                "seed": seed,
                **(settings or {}),
            },
        }
        self.done = {"documents_read": 0, "rounds": 0, "shards": []}

    def open(self, overwrite):
        """Checks the directory; returns whether the records are already complete."""
        names = sorted(path.name for path in self.directory.iterdir()) if self.directory.exists() else []
        ours = [n for n in names if n in _STATE or n.startswith(("train-", "held-out-")) or is_partial(n)]
        others = sorted(set(names) - set(ours) - set(_RECIPE))
        if others:
            raise ValueError(
                f"{self.directory} holds other files ({', '.join(others[:3])}). Records need a directory of their own."
            )
        if overwrite:
            for name in sorted(ours, key=lambda name: name not in _STATE):  # first the files that mark it as records
                (self.directory / name).unlink()
            return False
        if not ours:
            return False
        remove_partial(self.directory)
        finished = MANIFEST in ours and UNFINISHED not in ours  # with both it was killed at its very end
        there = read_manifest(self.directory) if finished else self._read_unfinished()
        if _resolved(there) != _resolved(self.made_by):
            raise ValueError(
                f"{self.directory} holds {'records' if finished else 'an unfinished run'} with other settings: "
                f"{_difference(there, self.made_by)}. Give the same settings, another directory, or `overwrite`."
            )
        if not finished:
            self.done = there["done"]
            self._check_done()
        return finished

    def _read_unfinished(self):
        path = self.directory / UNFINISHED
        try:
            state = read_json(path)
            check_signature(state, path)
        except ValueError as error:
            raise ValueError(f"{error} Give `overwrite` to start again.") from None
        return state

    def _check_done(self):
        """Raises ValueError unless the completed shards are still complete; this is cheap compared with tokenising."""
        check_shards(self.done["shards"], self.directory / UNFINISHED)
        for shard in self.done["shards"]:
            for suffix in ("tokens", "index"):
                path = self.directory / f"{shard['name']}.{suffix}"
                if not path.is_file() or sha256(path) != shard[f"{suffix}_sha256"]:
                    raise ValueError(f"{path} is missing or damaged. Give `overwrite` to start again.")

    def write(self, documents):
        start = self.done["documents_read"]
        held = set()

        def numbered():
            for number, sentences in enumerate(itertools.islice(documents, start, None), start):
                _check_document(number, sentences)
                if is_held_out(sentences, self.held_out):
                    held.add(number)
                yield 0, number, sentences

        begin, tokens, read = time.monotonic(), 0, start
        logged = begin
        gathered = []
        for _, read, pool in text_pools(numbered, self.tokenizer).as_numpy_iterator():
            if not (self.done["rounds"] or gathered):
                self._save_state()
            gathered.append(pool)
            tokens += len(pool.token_ids)
            now = time.monotonic()
            if now - logged >= _SECONDS:
                logged = now
                counts = ", ".join(f"{count:,} {name}" for name, count in self._counts(gathered).items())
                _LOGGER.info("%s, %s tokens/s", counts, f"{tokens / (now - begin):,.0f}")
            if sum(len(pool.token_ids) for pool in gathered) >= self.shard_tokens * self.shuffle_shards:
                self._write_round(gathered, held, int(read))
                gathered = []
        if gathered:
            self._write_round(gathered, held, int(read))
        if not self.done["shards"]:
            raise ValueError("The corpus has no document with a token: there is nothing to write.")
        if all(shard["held_out"] for shard in self.done["shards"]):
            raise ValueError(
                f"All {self.done['documents_read']:,} documents are held out at held_out={self.held_out}, none is "
                "for training. Give a smaller share, or more documents."
            )
        self._finish()

    def _counts(self, gathered=()):
        counts = {key: sum(s[key] for s in self.done["shards"]) for key in ("documents", "sentences", "tokens")}
        counts["documents"] += sum(len(pool.document_ids) for pool in gathered)
        counts["sentences"] += sum(len(pool.sentence_lengths) for pool in gathered)
        counts["tokens"] += sum(len(pool.token_ids) for pool in gathered)
        return counts

    def _write_round(self, pools, held, documents_read):
        documents, numbers = [], []
        for pool in pools:
            sentence_splits = np.concatenate([[0], np.cumsum(pool.sentence_lengths, dtype=np.int64)])
            for first, last in itertools.pairwise(pool.document_splits):
                tokens = pool.token_ids[sentence_splits[first] : sentence_splits[last]]
                documents.append((tokens.astype(self.token_type), pool.sentence_lengths[first:last]))
            numbers += pool.document_ids.tolist()
        order = permutation(fold_in(self.seed, self.done["rounds"]), len(documents)).numpy().tolist()
        for held_out in KINDS:
            chosen = [documents[i] for i in order if (numbers[i] in held) == held_out]
            for shard in _divide(chosen, self.shard_tokens):
                self._write_shard(held_out, shard)
        self.done["rounds"] += 1
        self.done["documents_read"] = documents_read
        self._save_state()

    def _save_state(self):
        self.directory.mkdir(parents=True, exist_ok=True)
        _write(self.directory / UNFINISHED, json.dumps(signed({**self.made_by, "done": self.done})).encode())

    def _write_shard(self, held_out, documents):
        shards = self.done["shards"]
        name = f"{KINDS[held_out]}-{sum(s['held_out'] == held_out for s in shards):05d}"
        tokens = np.concatenate([tokens for tokens, _ in documents])
        lengths = np.concatenate([lengths for _, lengths in documents])
        sizes = [len(lengths) for _, lengths in documents]
        index = np.concatenate([[len(lengths), len(sizes)], lengths, sizes]).astype("<i4")
        files = {
            "tokens": tokens.astype(np.dtype(self.token_type).newbyteorder("<")).tobytes(),
            "index": index.tobytes(),
        }
        for suffix, content in files.items():
            _write(self.directory / f"{name}.{suffix}", content)
        shards.append(
            {
                "name": name,
                "held_out": held_out,
                "first_document": sum(s["documents"] for s in shards),
                "documents": len(sizes),
                "sentences": len(lengths),
                "tokens": len(tokens),
                **{f"{suffix}_sha256": hashlib.sha256(content).hexdigest() for suffix, content in files.items()},
            }
        )

    def _finish(self):
        manifest = signed(
            {
                "format": FORMAT,
                "token_type": self.token_type,
                **self.made_by,
                "counts": self._counts(),
                "versions": {"python": platform.python_version(), **versions(_PACKAGES)},
                "shards": self.done["shards"],
            }
        )
        write_vocabulary(self.directory / VOCABULARY, self.tokenizer.vocabulary)
        _write(self.directory / MANIFEST, (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())
        (self.directory / UNFINISHED).unlink(missing_ok=True)


def _check_document(number, sentences):
    if not isinstance(sentences, list | tuple):
        raise ValueError(f"documents[{number}]: expected a list of sentences. Received: {str(sentences)[:60]!r}")
    for position, sentence in enumerate(sentences):
        if not isinstance(sentence, str):
            raise ValueError(f"documents[{number}][{position}]: expected str. Received: {str(sentence)[:60]}")


def _divide(documents, shard_tokens):
    """Cuts a list of documents into shards of about equal numbers of tokens."""
    if not documents:
        return []
    sizes = np.array([len(tokens) for tokens, _ in documents])
    middles = np.cumsum(sizes) - (sizes + 1) // 2
    shards = max(1, round(int(sizes.sum()) / shard_tokens))
    number = middles * shards // sizes.sum()  # of the shard that each document's middle falls in
    return [[documents[i] for i in np.flatnonzero(number == shard)] for shard in np.unique(number)]


def _write(path, content):
    with atomic_file(path, "wb") as file:
        file.write(content)


def _resolved(made_by):
    """The settings that define the records, with different spellings of the same tokenizer settings made equal."""
    return made_by["vocabulary"], resolve_settings(made_by["tokenizer"]), made_by["settings"]


def _difference(there, received):
    flat = [
        {**part.get("settings", {}), **part.get("tokenizer", {}), "vocabulary": part.get("vocabulary")}
        for part in (there, received)
    ]
    return ", ".join(
        f"{key}={flat[0].get(key)!r}, received {flat[1].get(key)!r}"
        for key in sorted({*flat[0], *flat[1]})
        if flat[0].get(key) != flat[1].get(key)
    )
