"""Which documents of a corpus are set aside for evaluation."""

import hashlib
import math
from collections.abc import Iterable, Sequence

HELD_OUT = 0.01  # the default fraction
KINDS = {True: "held out", False: "for training"}


def is_held_out(sentences: Iterable[str], fraction: float) -> bool:
    """Whether a document belongs to the held-out set: a function of its text alone, so that copies stay together."""
    return held_out_rank(sentences) < fraction * 2.0**64


def held_out_rank(sentences: Iterable[str]) -> int:
    """The hash of a document, below 2**64. The documents with the lowest hashes are held out."""
    digest = hashlib.blake2b("\n".join(sentences).encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def sufficient_fraction(documents: int) -> float:
    """A fraction that holds out a document in 19 of 20 corpora of this many documents, for error messages."""
    return min(0.5, math.ceil(30 / documents) / 10)


class NoDocuments(ValueError):
    """No document of a corpus is held out, or none is left for training."""


def check_held_out(documents: Iterable[Sequence[str]], fraction: float) -> None:
    """Raises NoDocuments unless there are documents for training and for evaluation; reads until it has found both."""
    ranks: set[float] = set()
    found: set[bool] = set()
    count = 0
    for document in documents:
        found.add(is_held_out(document, fraction))
        if len(found) == 2:
            return
        count += 1
        ranks.add(held_out_rank(document) / 2.0**64)
    if len(ranks) == 1:
        raise NoDocuments(describe_one_document(count))
    enough = (math.floor(100 * min(ranks)) + 1) / 100  # holds out the document with the lowest rank
    missing = True not in found
    if not missing:
        advice = "Give a smaller fraction (--held-out)"
    elif enough <= max(ranks):
        advice = f"Give a larger fraction, such as {enough} (--held-out {enough})"
    else:
        advice = "Give more documents: at least one for training and one for evaluation"
    raise NoDocuments(f"None of {count:,} documents is {KINDS[missing]} at held_out={fraction}. {advice}.")


def describe_one_document(count: int) -> str:
    received = "one document" if count == 1 else f"{count:,} documents with the same text"
    return (
        f"Expected documents for training and others to hold out. Received: {received}. A file of prose is one "
        "document: split it into several files, such as one for each chapter (docs/corpora.md)."
    )
