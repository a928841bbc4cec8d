"""Tokenised documents → shards of records: shuffled, divided, as the bytes of their files.

Shapes: n sentences, t tokens of a document.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from kbert.corpus.records_manifest import KINDS
from kbert.stateless_random import fold_in, permutation


@dataclasses.dataclass(frozen=True)
class Shard:
    """A shard before it has its number.

    Attributes:
        held_out: whether training never sees its documents.
        files: content of the files ``tokens`` and ``index``, by suffix.
        counts: ``documents``, ``sentences`` and ``tokens``.
    """

    held_out: bool
    files: dict[str, bytes]
    counts: dict[str, int]

    def hashes(self) -> dict[str, str]:
        """The SHA-256 of each file, as the manifest names them."""
        return {f"{suffix}_sha256": hashlib.sha256(content).hexdigest() for suffix, content in self.files.items()}


def make_shards(
    documents: Sequence[tuple], is_held_out: Sequence[bool], number: int, *, seed: int, shard_tokens: int, kind: str
) -> Iterator[Shard]:
    """Yields the shards of one round, the documents that are shuffled together, first those for training.

    `documents` holds (token ids [t], lengths of the sentences in tokens [n]) of each document. `number`, of the round,
    and `seed` decide the order. `kind` is the type of the stored ids, "uint16" or "int32".
    """
    order = permutation(fold_in(seed, number), len(documents)).numpy().tolist()
    for held_out in KINDS:
        chosen = [documents[i] for i in order if bool(is_held_out[i]) == held_out]
        for some in _divide(chosen, shard_tokens):
            yield _shard(held_out, some, kind)


def pool_documents(pool) -> list[tuple]:
    """(token ids [t], lengths of the sentences [n]) of each document of a `TokenPool` of arrays."""
    splits = np.concatenate([[0], np.cumsum(pool.sentence_lengths, dtype=np.int64)])
    return [
        (pool.token_ids[splits[first] : splits[last]], pool.sentence_lengths[first:last])
        for first, last in itertools.pairwise(pool.document_splits)
    ]


def _shard(held_out, documents, kind):
    tokens = np.concatenate([tokens for tokens, _ in documents])
    lengths = np.concatenate([lengths for _, lengths in documents])
    sizes = [len(lengths) for _, lengths in documents]
    index = np.concatenate([[len(lengths), len(sizes)], lengths, sizes]).astype("<i4")
    files = {"tokens": tokens.astype(np.dtype(kind).newbyteorder("<")).tobytes(), "index": index.tobytes()}
    return Shard(held_out, files, {"documents": len(sizes), "sentences": len(lengths), "tokens": len(tokens)})


def _divide(documents, shard_tokens):
    """Cuts a list of documents into shards of about equal numbers of tokens."""
    if not documents:
        return []
    sizes = np.array([len(tokens) for tokens, _ in documents])
    middles = np.cumsum(sizes) - (sizes + 1) // 2
    shards = max(1, round(int(sizes.sum()) / shard_tokens))
    number = middles * shards // sizes.sum()  # of the shard that each document's middle falls in
    return [[documents[i] for i in np.flatnonzero(number == shard)] for shard in np.unique(number)]
