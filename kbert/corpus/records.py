"""Records: a corpus tokenised once, in shards that are pools of documents, with an index and a manifest.

A records directory holds

    manifest.json       settings, counts, size and SHA-256 of each shard, and at its end its own SHA-256
    vocab.txt           the vocabulary
    train-00000.tokens  token ids, little-endian uint16 (int32 beyond 65,536 tokens), one sentence after the other
    train-00000.index   little-endian int32: n, d, the n sentences' lengths in tokens, the d documents' in sentences
    held-out-00000.…    tokens and index of the documents that training never sees

Shapes: n sentences, d documents, t tokens of a shard.
"""

import hashlib
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from kbert.checks import check_path
from kbert.corpus.pool import TokenPool
from kbert.corpus.records_manifest import MANIFEST, VOCABULARY, read_manifest
from kbert.text.tokenizer import BertTokenizer
from kbert.text.vocabulary import read_vocabulary, resolve_settings


class Records:
    """A records directory, checked and open for reading.

    Opening checks the manifest, the vocabulary, the size of every file, and the whole of every index. The tokens of a
    shard are checked each time it is read, by their SHA-256 and by the range of their ids.

    Args:
        directory: written by `write_records` or kbert records.

    Raises:
        TypeError: `directory` is not a path.
        ValueError: no records there, an unfinished or unknown format, or any damage. The message names the file.

    Example::

        records = Records("records")
        records.check_tokenizer(tokenizer)
        pool = records.pool(0)  # TokenPool of the first training shard
    """

    def __init__(self, directory: str | os.PathLike):
        self.directory = check_path(directory, "Records: `directory`")
        self.manifest = read_manifest(self.directory)
        self.token_type = tf.as_dtype(self.manifest["token_type"])
        self._check_vocabulary()
        shards = self.manifest["shards"]
        for shard in shards:
            self._check_size(shard["name"] + ".tokens", shard["tokens"] * self.token_type.size)
            self._check_size(shard["name"] + ".index", (2 + shard["sentences"] + shard["documents"]) * 4)
        for shard in shards:
            read_index(self.directory, shard)
        self.training = [shard for shard in shards if not shard["held_out"]]
        self.held_out = [shard for shard in shards if shard["held_out"]]

    def tokenizer(self) -> BertTokenizer:
        """The `kbert.BertTokenizer` that the records were made with."""
        return BertTokenizer(self.directory / VOCABULARY, **self.manifest["tokenizer"])

    def check_tokenizer(self, tokenizer: BertTokenizer) -> None:
        """Raises ValueError unless the tokenizer has the vocabulary and settings of these records."""
        expected = self.manifest["vocabulary"]
        if tokenizer.vocabulary_size != expected["size"]:
            raise ValueError(
                f"{self.directory} was made with a vocabulary of {expected['size']:,} tokens. Received: a tokenizer "
                f"with {tokenizer.vocabulary_size:,}. Use {self.directory / VOCABULARY}, or prepare the records again "
                "with the vocabulary of this tokenizer."
            )
        if vocabulary_hash(tokenizer.vocabulary) != expected["sha256"]:
            raise ValueError(
                f"{self.directory} was made with another vocabulary of the same size. "
                f"Use {self.directory / VOCABULARY}, or prepare the records again with that of this tokenizer."
            )
        made, received = (resolve_settings(s) for s in (self.manifest["tokenizer"], tokenizer.settings()))
        different = [name for name in made if made[name] != received.get(name)]
        if different:
            raise ValueError(
                f"{self.directory} was made with a tokenizer of other settings: "
                + ", ".join(f"{name}={made[name]!r}, received {received.get(name)!r}" for name in different)
            )

    def check_hashes(self) -> None:
        """Reads every shard and raises ValueError for the first damaged one."""
        for shard in self.manifest["shards"]:
            read_index(self.directory, shard)
            self._read_tokens(shard)

    def pool(self, shard: int | tf.Tensor, held_out: bool = False) -> TokenPool:
        """A shard, in graph or eagerly; ValueError if it is damaged (in a dataset see `kbert.errors`).

        Args:
            shard: number of the shard.
            held_out: whether to count the shards of held-out documents, not those for training.
        """
        return self._pool(shard, held_out, with_tokens=True)

    def index(self, shard: int | tf.Tensor, held_out: bool = False) -> TokenPool:
        """As `pool`, with ``token_ids`` of length 0: enough to count pairs."""
        return self._pool(shard, held_out, with_tokens=False)

    def pool_bytes(self, held_out: bool = False) -> int:
        """The size of the tokens of the largest shard."""
        shards = self.held_out if held_out else self.training
        return self.token_type.size * max(shard["tokens"] for shard in shards)

    def _pool(self, number, held_out, with_tokens):
        shards = self.held_out if held_out else self.training

        def read(number):
            shard = shards[number]
            lengths, sizes = read_index(self.directory, shard)
            token_ids = self._read_tokens(shard) if with_tokens else np.zeros(0, self.token_type.as_numpy_dtype)
            documents = shard["first_document"] + np.arange(shard["documents"], dtype=np.int64)
            return token_ids, lengths, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32), documents

        if not tf.is_symbolic_tensor(number):
            return TokenPool(*map(tf.convert_to_tensor, read(int(number))))
        parts = tf.numpy_function(read, [number], (self.token_type, tf.int32, tf.int32, tf.int64))
        return TokenPool(*(tf.ensure_shape(part, [None]) for part in parts))

    def _read_tokens(self, shard):
        path = self.directory / f"{shard['name']}.tokens"
        content = _read_hashed(path, shard["tokens_sha256"])
        return np.frombuffer(content, np.dtype(self.token_type.as_numpy_dtype).newbyteorder("<"))

    def _check_vocabulary(self):
        path = self.directory / VOCABULARY
        expected = self.manifest["vocabulary"]
        if not path.is_file():
            raise ValueError(f"{path} is missing. Prepare the records again.")
        vocabulary = read_vocabulary(path)
        if len(vocabulary) != expected["size"] or vocabulary_hash(vocabulary) != expected["sha256"]:
            raise ValueError(
                f"{path} is damaged or was edited: its {len(vocabulary):,} tokens are not those that the records were "
                "made with. Prepare the records again."
            )

    def _check_size(self, name, expected):
        path = self.directory / name
        if not path.is_file():
            raise ValueError(f"{path} is missing, which {self.directory / MANIFEST} lists. Prepare the records again.")
        if path.stat().st_size != expected:
            raise ValueError(
                f"{path} is damaged or truncated: expected {expected:,} bytes. Received: {path.stat().st_size:,} "
                "bytes. Prepare the records again."
            )


def read_index(directory: pathlib.Path, shard: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The lengths of a shard's sentences in tokens, int32 [n], and of its documents in sentences, int32 [d]."""
    path = directory / f"{shard['name']}.index"
    numbers = np.frombuffer(_read_hashed(path, shard["index_sha256"]), "<i4")
    sentences = shard["sentences"]
    return numbers[2 : 2 + sentences], numbers[2 + sentences :]


def _read_hashed(path, sha256):
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path} is damaged: its SHA-256 is not the manifest's. Prepare the records again.")
    return content


def vocabulary_hash(vocabulary: Iterable[str]) -> str:
    """SHA-256 of the tokens, one a line."""
    return hashlib.sha256("\n".join(vocabulary).encode("utf-8", "surrogatepass")).hexdigest()
