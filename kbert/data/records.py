"""Records: a corpus tokenised once, in shards that are pools of documents, with an index and a manifest.

A records directory holds

    manifest.json       what made it, the counts, and for each shard its size and SHA-256
    vocab.txt           the vocabulary
    train-00000.tokens  token ids, little-endian uint16 (int32 for more than 65,536 tokens), sentence behind sentence
    train-00000.index   little-endian int32: n, D, the n sentences' lengths in tokens, the D documents' in sentences
    held-out-00000.…    the same, for the documents that training never sees

Shapes: n sentences, D documents, T tokens of a shard.
"""
import hashlib
import os
import pathlib

import tensorflow as tf

from kbert.data.pool import TokenPool
from kbert.files import read_json
from kbert.text.tokenizer import BertTokenizer

FORMAT = "kbert records 1"
MANIFEST = "manifest.json"
VOCABULARY = "vocab.txt"


class Records:
    """A records directory, checked and open for reading. Only the manifest is read; shards are loaded in graph.

    Args:
        directory: written by `write_records` or recipes/prepare_records.py.

    Raises:
        ValueError: no records there, an unfinished or unknown format, a shard that is missing or cut short. Names the
            file.

    Example::

        records = Records("records")
        records.check_tokenizer(tokenizer)
        pool = records.pool(0)  # TokenPool of the first training shard
    """

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.manifest = _read_manifest(self.directory)
        self.token_type = tf.as_dtype(self.manifest["token_type"])
        shards = self.manifest["shards"]
        for shard in shards:
            self._check_size(shard["name"] + ".tokens", shard["tokens"] * self.token_type.size)
            self._check_size(shard["name"] + ".index", (2 + shard["sentences"] + shard["documents"]) * 4)
        self.training = [shard for shard in shards if not shard["held_out"]]
        self.held_out = [shard for shard in shards if shard["held_out"]]

    def tokenizer(self, **kwargs):
        """The tokenizer that the records were made with."""
        return BertTokenizer(self.directory / VOCABULARY, **self.manifest["tokenizer"], **kwargs)

    def check_tokenizer(self, tokenizer):
        """Raises ValueError unless the tokenizer makes the ids that the records hold."""
        expected = self.manifest["vocabulary"]
        if tokenizer.vocabulary_size != expected["size"]:
            raise ValueError(
                f"{self.directory} was made with a vocabulary of {expected['size']:,} tokens. Received: a tokenizer "
                f"with {tokenizer.vocabulary_size:,}. Use {self.directory / VOCABULARY}, or prepare the records anew."
            )
        if vocabulary_hash(tokenizer.vocabulary) != expected["sha256"]:
            raise ValueError(
                f"{self.directory} was made with another vocabulary of the same size. "
                f"Use {self.directory / VOCABULARY}, or prepare the records anew."
            )
        made, received = self.manifest["tokenizer"], tokenizer.settings()
        different = [name for name in made if made[name] != received.get(name)]
        if different:
            raise ValueError(
                f"{self.directory} was made with a tokenizer of other settings: "
                + ", ".join(f"{name}={made[name]!r}, received {received.get(name)!r}" for name in different)
            )

    def check_hashes(self):
        """Reads every shard and raises ValueError for the first whose bytes are not those that were written."""
        for shard in self.manifest["shards"]:
            for suffix in ("tokens", "index"):
                path = self.directory / f"{shard['name']}.{suffix}"
                if hashlib.sha256(path.read_bytes()).hexdigest() != shard[f"{suffix}_sha256"]:
                    raise ValueError(f"{path} is damaged: its SHA-256 is not the manifest's. Prepare the records anew.")

    def pool(self, shard, held_out=False):
        """The `TokenPool` of a shard, by its number (int or int scalar tensor), in graph or eagerly."""
        shards, shard = self.held_out if held_out else self.training, tf.convert_to_tensor(shard)
        name = tf.gather([str(self.directory / s["name"]) for s in shards], shard)
        return self._index(name, shards, shard, tf.io.decode_raw(tf.io.read_file(name + ".tokens"), self.token_type))

    def index(self, shard, held_out=False):
        """As `pool`, without the tokens: enough to count pairs."""
        shards, shard = self.held_out if held_out else self.training, tf.convert_to_tensor(shard)
        name = tf.gather([str(self.directory / s["name"]) for s in shards], shard)
        return self._index(name, shards, shard, tf.zeros([0], self.token_type))

    def _index(self, name, shards, shard, token_ids):
        numbers = tf.io.decode_raw(tf.io.read_file(name + ".index"), tf.int32)
        sentences, documents = numbers[0], numbers[1]
        first = tf.gather(tf.constant([s["first_document"] for s in shards], tf.int64), shard)
        return TokenPool(
            token_ids,
            numbers[2 : 2 + sentences],
            tf.pad(tf.cumsum(numbers[2 + sentences :]), [[1, 0]]),
            first + tf.range(tf.cast(documents, tf.int64)),
        )

    def _check_size(self, name, expected):
        path = self.directory / name
        if not path.is_file():
            raise ValueError(f"{path} is missing, which {self.directory / MANIFEST} lists. Prepare the records anew.")
        if path.stat().st_size != expected:
            raise ValueError(
                f"{path} is damaged or cut short: expected {expected:,} bytes. Received: {path.stat().st_size:,} "
                "bytes. Prepare the records anew."
            )


def is_records(path):
    """Whether a path is a directory made by `write_records`, finished or not."""
    path = pathlib.Path(path)
    return path.is_dir() and any((path / name).is_file() for name in (MANIFEST, "unfinished.json"))


def vocabulary_hash(vocabulary):
    """SHA-256 of the tokens, one a line."""
    return hashlib.sha256("\n".join(vocabulary).encode("utf-8", "surrogatepass")).hexdigest()


def _read_manifest(directory):
    path = directory / MANIFEST
    if not directory.is_dir():
        raise ValueError(
            f"There are no records: {os.fspath(directory)} is no directory. See recipes/prepare_records.py."
        )
    if (directory / "unfinished.json").is_file():
        raise ValueError(
            f"{directory} is unfinished. Give the same prepare_records.py command again; it goes on from there."
        )
    try:
        manifest = read_json(path)
    except FileNotFoundError:
        raise ValueError(
            f"{directory} holds no records: {MANIFEST} is missing. See recipes/prepare_records.py."
        ) from None
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}. Prepare the records anew.") from None
    if manifest.get("format") != FORMAT:
        raise ValueError(f"{path}: expected the format {FORMAT!r}. Received: {manifest.get('format')!r}")
    return manifest
