"""Metrics of a search: how high the texts that were looked for stand in its results.

Shapes: q queries, k results.
"""

from collections.abc import Collection, Sequence

import numpy as np

SEARCH_METRICS = ("recall@1", "recall@10", "mrr@10", "ndcg@10")
_DEPTH = 10


def search_scores(results: np.ndarray, relevant: Sequence[Collection[int]]) -> dict[str, float]:
    """The means over all queries of ``recall@1``, ``recall@10``, ``mrr@10`` and ``ndcg@10``.

    Recall is the fraction of the right texts that is found, of 1 or 10 at most. The reciprocal rank is 1 / place of the
    first right text.

    Args:
        results: integers [q, k], the results of each query, the best first. Metrics at 10 read the first ten.
        relevant: for each query the texts that are right, at least one.

    Returns:
        The four means.

    Example::

        found = kbert.search(pipeline, documents, ["When can I visit you?"])
        search_scores(found.rows, [{1}])
    """
    hits = np.zeros((len(relevant), _DEPTH))
    for row, (found, right) in enumerate(zip(results, relevant, strict=True)):
        hits[row, : min(_DEPTH, len(found))] = np.isin(found[:_DEPTH], list(right))
    counts = np.array([len(right) for right in relevant])
    gains = 1.0 / np.log2(np.arange(2, _DEPTH + 2))
    best_gains = np.cumsum(gains)[np.minimum(counts, _DEPTH) - 1]
    first = np.where(hits.any(axis=1), 1.0 / (hits.argmax(axis=1) + 1), 0.0)
    return {
        "recall@1": float(np.mean(hits[:, 0])),
        "recall@10": float(np.mean(hits.sum(axis=1) / np.minimum(counts, _DEPTH))),
        "mrr@10": float(np.mean(first)),
        "ndcg@10": float(np.mean(hits @ gains / best_gains)),
    }


def random_search_scores(texts: int) -> dict[str, float]:
    """What a random order of so many texts, of which one is right, reaches on average."""
    places = np.arange(1, min(_DEPTH, texts) + 1)
    return {
        "recall@1": 1 / texts,
        "recall@10": len(places) / texts,
        "mrr@10": float(np.sum(1 / places)) / texts,
        "ndcg@10": float(np.sum(1 / np.log2(places + 1))) / texts,
    }
