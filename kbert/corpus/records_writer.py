"""A records directory while it is written: its settings, its shards one after the other, its manifest."""

import json
import platform

from kbert.beam import delete_shared
from kbert.checks import check_bool, check_directory, check_integers, check_numbers, check_positive, differing
from kbert.corpus.records import vocabulary_hash
from kbert.corpus.records_manifest import (
    FORMAT,
    KINDS,
    MANIFEST,
    UNFINISHED,
    VOCABULARY,
    check_shards,
    read_manifest,
    token_type,
)
from kbert.corpus.shards import make_shards
from kbert.files import atomic_file, check_signature, is_partial, read_json, remove_partial, sha256, signed
from kbert.locks import LOCK
from kbert.text.same_tokenizer import resolve_settings
from kbert.text.vocabulary import write_vocabulary
from kbert.versions import versions

PACKAGES = ("tensorflow", "tensorflow-text", "sentencex", "numpy")  # which decide the tokens
SHARED = "partial"  # what workers of a pipeline have finished
_STATE = (MANIFEST, UNFINISHED, VOCABULARY)
_AGAIN = "Give `overwrite` to start again."
_MOST_TOKENS = 1 << 28  # of a shard, which training holds in memory
_OTHERS = ("settings.json", "inputs.json", "metrics.json", LOCK, SHARED)


class RecordsWriter:
    """A records directory while it is written: what is there already, its next shard, its manifest.

    Attributes:
        made_by: vocabulary, tokenizer and settings, as in the manifest.
        done: ``documents_read``, ``rounds`` and ``shards``, which unfinished.json records.
    """

    def __init__(self, directory, tokenizer, *, shard_tokens, shuffle_shards, held_out, seed, settings):
        division = checked_division("write_records", shard_tokens, shuffle_shards, held_out, seed)
        self.directory, self.tokenizer = check_directory(directory, "write_records: `directory`"), tokenizer
        self.shard_tokens, self.shuffle_shards, self.held_out, self.seed = division.values()
        self.token_type = token_type(tokenizer.vocabulary_size)
        self.made_by = {
            "vocabulary": {"size": tokenizer.vocabulary_size, "sha256": vocabulary_hash(tokenizer.vocabulary)},
            "tokenizer": tokenizer.settings(),
            "settings": {**division, **(settings or {})},
        }
        self.done = {"documents_read": 0, "rounds": 0, "shards": []}

    def open(self, overwrite):
        """Checks the directory; returns whether the records are already complete."""
        check_bool(overwrite, "`overwrite`")
        names = sorted(path.name for path in self.directory.iterdir()) if self.directory.exists() else []
        ours = [n for n in names if n in _STATE or n.startswith(("train-", "held-out-")) or is_partial(n)]
        others = sorted(set(names) - set(ours) - set(_OTHERS))
        if others:
            raise ValueError(
                f"{self.directory} holds other files ({', '.join(others[:3])}). Records need a directory of their own."
            )
        if overwrite:
            if ours:
                remove_partial(self.directory)
                ours = [name for name in ours if not is_partial(name)]
            for name in sorted(ours, key=lambda name: name not in _STATE):  # first the files that mark it as records
                (self.directory / name).unlink()
            delete_shared(self.directory / SHARED)
            return False
        if not ours:
            return False
        remove_partial(self.directory)
        finished = MANIFEST in ours and UNFINISHED not in ours  # with both it was killed at its very end
        stored = read_manifest(self.directory) if finished else self._read_unfinished()
        if differing(_resolved(stored), _resolved(self.made_by)):
            raise ValueError(
                f"{self.directory} holds {'records' if finished else 'an unfinished run'} with other settings: "
                f"{_difference(stored, self.made_by)}. Give the same settings, another directory, or `overwrite`."
            )
        if not finished:
            self.done = stored["done"]
            self._check_done()
        return finished

    def _read_unfinished(self):
        path = self.directory / UNFINISHED
        try:
            state = read_json(path)
        except ValueError as error:
            raise ValueError(f"{error} {_AGAIN}") from None
        check_signature(state, path, _AGAIN)
        return state

    def _check_done(self):
        """Checks that the completed shards still are, which is cheap compared with tokenising."""
        check_shards(self.done["shards"], self.directory / UNFINISHED)
        for shard in self.done["shards"]:
            for suffix in ("tokens", "index"):
                path = self.directory / f"{shard['name']}.{suffix}"
                if not path.is_file() or sha256(path) != shard[f"{suffix}_sha256"]:
                    raise ValueError(f"{path} is missing or damaged. {_AGAIN}")

    def counts(self, gathered=()) -> dict[str, int]:
        """Documents, sentences and tokens of the shards that are written, and of the pools `gathered`."""
        counts = {key: sum(s[key] for s in self.done["shards"]) for key in ("documents", "sentences", "tokens")}
        counts["documents"] += sum(len(pool.document_ids) for pool in gathered)
        counts["sentences"] += sum(len(pool.sentence_lengths) for pool in gathered)
        counts["tokens"] += sum(len(pool.token_ids) for pool in gathered)
        return counts

    def shards_of_round(self, documents, is_held_out, number):
        return make_shards(
            documents, is_held_out, number, seed=self.seed, shard_tokens=self.shard_tokens, kind=self.token_type
        )

    def save_state(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        _write(self.directory / UNFINISHED, json.dumps(signed({**self.made_by, "done": self.done})).encode())

    def add_shard(self, held_out, files, facts) -> None:
        """Writes the files (suffix → content) of the next shard; `facts` are its counts and hashes."""
        shards = self.done["shards"]
        name = f"{KINDS[held_out]}-{sum(s['held_out'] == held_out for s in shards):05d}"
        for suffix, content in files.items():
            _write(self.directory / f"{name}.{suffix}", content)
        first = sum(s["documents"] for s in shards)
        shards.append({"name": name, "held_out": held_out, "first_document": first, **facts})

    def write_manifest(self) -> None:
        """Writes the manifest, which marks the records as complete; ValueError without a training shard."""
        if not self.done["shards"]:
            raise ValueError("The corpus has no document with a token: there is nothing to write.")
        if all(shard["held_out"] for shard in self.done["shards"]):
            raise ValueError(
                f"All {self.done['documents_read']:,} documents are held out at held_out={self.held_out}, none is "
                "for training. Give a smaller share, or more documents."
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
        _write(self.directory / MANIFEST, (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode())
        (self.directory / UNFINISHED).unlink(missing_ok=True)
        delete_shared(self.directory / SHARED)


def checked_division(owner, shard_tokens, shuffle_shards, held_out, seed) -> dict:
    """The arguments of `write_records` that divide a corpus, by name; ValueError for one that cannot."""
    division = check_positive(owner, shard_tokens=shard_tokens, shuffle_shards=shuffle_shards)
    if shard_tokens > _MOST_TOKENS:
        raise ValueError(f"{owner}: `shard_tokens` must be at most {_MOST_TOKENS:,}. Received: {shard_tokens!r}")
    division |= check_numbers(owner, "[0, 1)", held_out=held_out)
    return division | check_integers(owner, 0, seed=seed)


def _write(path, content):
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
