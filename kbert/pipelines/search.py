"""Exact search by embeddings.

Shapes: n texts of the collection, q queries, H hidden, k results.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from kbert.checks import check_positive

_QUERIES, _TEXTS = 1024, 16384  # of a block of similarities


@dataclasses.dataclass(frozen=True)
class SearchResults:
    """What a search found.

    Attributes:
        rows: int64 [q, k], rows of the collection, the most similar first.
        scores: float32 [q, k], their cosine similarities.
    """

    rows: np.ndarray
    scores: np.ndarray


def search(
    pipeline,
    collection: Sequence[str] | np.ndarray,
    queries: Sequence[str] | np.ndarray,
    k: int = 10,
    *,
    batch_size: int = 32,
) -> SearchResults:
    """Finds the k texts of a collection that are the most similar to each query, by cosine similarity.

    The search is exact: it compares every query with every text, in blocks that fit into memory.

    Args:
        pipeline: of a model with the answer ``embedding``. None if both are given as embeddings.
        collection: n strings, or their embeddings float [n, H], so that they are computed once for many searches.
        queries: q strings, or their embeddings float [q, H].
        k: results of a query, at most n.
        batch_size: texts that are embedded at once.

    Returns:
        `SearchResults`: ``rows`` int64 [q, k], rows of the collection, the most similar first, and ``scores`` float32
            [q, k], their cosine similarities.

    Raises:
        ValueError: no texts, embeddings of different lengths, a `k` above n, or a pipeline without embeddings.

    Example::

        pipeline = kbert.build_pipeline(kbert.load_pretrained("sentence-transformers/all-MiniLM-L6-v2", "encoder"))
        found = kbert.search(pipeline, documents, ["How do I reset my password?"], k=3)
        [documents[row] for row in found.rows[0]]
    """
    texts = _unit_vectors(pipeline, collection, "collection", batch_size)
    asked = _unit_vectors(pipeline, queries, "queries", batch_size)
    (k,) = check_positive("search", k=k).values()
    if k > len(texts):
        raise ValueError(f"search: expected `k` of at most {len(texts)}, the texts of the collection. Received: {k}")
    if texts.shape[1] != asked.shape[1]:
        raise ValueError(
            f"search: expected embeddings of one length. Received: {texts.shape[1]} and {asked.shape[1]} numbers"
        )
    parts = [_search_block(texts, asked[start : start + _QUERIES], k) for start in range(0, len(asked), _QUERIES)]
    return SearchResults(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _search_block(texts, queries, k):
    rows = np.empty((len(queries), 0), "int64")
    scores = np.empty((len(queries), 0), "float32")
    for start in range(0, len(texts), _TEXTS):
        block = queries @ texts[start : start + _TEXTS].T  # [q, texts of the block]
        block_rows = np.broadcast_to(np.arange(start, start + block.shape[1]), block.shape)
        scores = np.concatenate([scores, block], axis=1)
        rows = np.concatenate([rows, block_rows], axis=1)
        if scores.shape[1] > k:
            kept = np.argpartition(-scores, k - 1, axis=1)[:, :k]
            scores, rows = (np.take_along_axis(values, kept, axis=1) for values in (scores, rows))
    order = np.lexsort((rows, -scores), axis=1)  # equal scores in the order of the collection
    return tuple(np.take_along_axis(values, order, axis=1) for values in (rows, scores))


def _unit_vectors(pipeline, texts, name, batch_size):
    if not isinstance(texts, np.ndarray) or texts.dtype.kind not in "fiu":
        texts = _embeddings(pipeline, texts, name, batch_size)
    vectors = np.asarray(texts, "float32")
    if vectors.ndim != 2 or not len(vectors):
        raise ValueError(f"search: expected `{name}` as embeddings [n, H]. Received: an array {vectors.shape}")
    if not np.isfinite(vectors).all():
        raise ValueError(f"search: expected `{name}` as finite numbers. Received: infinite or NaN ones")
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _embeddings(pipeline, texts, name, batch_size):
    if isinstance(texts, str) or not len(texts):
        raise ValueError(f"search: expected `{name}` as a list of strings, at least one. Received: {texts!r:.80}")
    task = None if pipeline is None else pipeline.model.task
    if task not in ("encoder", "similarity"):
        raise ValueError(
            f"search: expected `pipeline` of a model with embeddings, to embed the {name}. Received: "
            + ("None" if task is None else f"a {task} model")
        )
    return pipeline.predict(list(texts), batch_size=batch_size, verbose=0)["embedding"]
