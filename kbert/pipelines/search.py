"""Search by embeddings: exact, or through an index.

Shapes: n texts of the collection, q queries, H hidden, k results.
"""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kbert.checks import check_option
from kbert.errors import MissingPackage
from kbert.files import atomic_file
from kbert.options import Count

if TYPE_CHECKING:
    from kbert.pipelines.pipeline import Pipeline

_QUERIES, _TEXTS = 1024, 16384  # of a block of similarities
_LINKS = 32  # of HNSW: faiss' M
_BUILD_BREADTH = 100  # efConstruction
_BREADTH = 128  # efSearch
_DIGEST = hashlib.sha256().digest_size  # bytes


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
    pipeline: "Pipeline | None",
    collection: "Sequence[str] | np.ndarray | SearchIndex",
    queries: Sequence[str] | np.ndarray,
    k: int = 10,
    *,
    batch_size: int = 32,
) -> SearchResults:
    """Finds the k texts of a collection that are the most similar to each query, by cosine similarity.

    The search is exact: it compares every query with every text, in blocks that fit into memory. Through a
    `SearchIndex` it is faster in large collections, and misses a few.

    Args:
        pipeline: of a model with the answer ``embedding``. None if both are given as embeddings.
        collection: n strings, or their embeddings float [n, H], so that they are computed once for many searches, or a
            `SearchIndex`.
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
    k = check_option("search", "k", k, Count)
    if isinstance(collection, SearchIndex):
        count, _ = collection.shape
    else:
        count = _count(pipeline, collection, "collection")
    if k > count:
        raise ValueError(f"search: expected `k` of at most {count}, the texts of the collection. Received: {k}")
    asked = _unit_vectors(pipeline, queries, "queries", batch_size)  # before the collection, which may take hours
    if isinstance(collection, SearchIndex):
        _, width = collection.shape
        search_block = collection._nearest
    else:
        texts, lengths = _vectors_and_lengths(pipeline, collection, "collection", batch_size)
        _, width = texts.shape
        search_block = functools.partial(_search_block, texts, lengths)
    if width != asked.shape[1]:
        raise ValueError(f"search: expected embeddings of one length. Received: {width} and {asked.shape[1]} numbers")
    parts = [search_block(asked[start : start + _QUERIES], k) for start in range(0, len(asked), _QUERIES)]
    return SearchResults(*(np.concatenate(part) for part in zip(*parts, strict=True)))


class SearchIndex:
    """The embeddings of a large collection with links between similar ones, for `kbert.search` (HNSW).

    A search follows the links and compares a query with some thousands of texts instead of all. It may miss a text.
    Links are made by several threads, so that two indexes of one collection may differ in a few results.

    Args:
        pipeline, collection, batch_size: as in `kbert.search`.

    Attributes:
        faiss: the `faiss.IndexHNSWFlat`. A larger ``faiss.hnsw.efSearch`` (128) misses fewer texts and takes longer.
        shape: (n, H).

    Raises:
        ImportError: faiss is not installed; the extra ``search`` of kbert installs it.
        ValueError: as `kbert.search`.

    Source: Malkov and Yashunin 2016.

    Example::

        index = kbert.SearchIndex(pipeline, documents)
        index.save("documents.index")
        index = kbert.SearchIndex.load("documents.index")
        found = kbert.search(pipeline, index, ["How do I reset my password?"], k=3)
    """

    def __init__(
        self, pipeline: "Pipeline | None", collection: Sequence[str] | np.ndarray, *, batch_size: int = 32
    ) -> None:
        faiss = _import_faiss()
        vectors = _unit_vectors(pipeline, collection, "collection", batch_size)
        self.faiss = faiss.IndexHNSWFlat(vectors.shape[1], _LINKS, faiss.METRIC_INNER_PRODUCT)
        self.faiss.hnsw.efConstruction = _BUILD_BREADTH
        self.faiss.hnsw.efSearch = _BREADTH
        self.faiss.add(vectors)

    @property
    def shape(self) -> tuple[int, int]:
        return self.faiss.ntotal, self.faiss.d

    def save(self, path: str | os.PathLike) -> None:
        """Writes one file: what ``faiss.write_index`` writes, which faiss can read, and its SHA-256.

        Example::

            index.save("documents.index")
        """
        faiss = _import_faiss()
        digest = hashlib.sha256()
        with atomic_file(path, "wb") as file:

            def write(content):
                digest.update(content)
                file.write(content)

            faiss.write_index(self.faiss, faiss.PyCallbackIOWriter(write))
            file.write(digest.digest())

    @classmethod
    def load(cls, path: str | os.PathLike) -> "SearchIndex":
        """Reads what `save` wrote.

        Raises:
            ImportError: faiss is not installed.
            OSError: the file cannot be read.
            ValueError: the file is damaged, or another one.

        Example::

            index = kbert.SearchIndex.load("documents.index")
        """
        faiss = _import_faiss()
        content = np.memmap(path, "uint8", "r") if os.path.getsize(path) else b""
        if hashlib.sha256(content[:-_DIGEST]).digest() != bytes(content[-_DIGEST:]):
            raise ValueError(f"{path} is damaged, or is not a file that SearchIndex.save wrote.")
        index = cls.__new__(cls)
        index.faiss = faiss.read_index(os.fspath(path))
        return index

    def _nearest(self, queries, k):
        scores, rows = self.faiss.search(queries, k)
        missed = (rows < 0).any(axis=1)  # fewer than k were within reach, as many texts are alike: all are compared
        if missed.any():
            scores[missed], rows[missed] = self.faiss.storage.search(queries[missed], k)
        return rows, scores


def _import_faiss():
    try:
        import faiss
    except ImportError as error:
        message = "SearchIndex needs faiss: pip install faiss-cpu, which the extra `search` of kbert installs"
        raise MissingPackage(message, name="faiss") from error
    return faiss


def _search_block(texts, lengths, queries, k):
    rows = np.empty((len(queries), 0), "int64")
    scores = np.empty((len(queries), 0), "float32")
    for start in range(0, len(texts), _TEXTS):
        block = queries @ texts[start : start + _TEXTS].T / lengths[start : start + _TEXTS]  # [q, texts of the block]
        block_rows = np.broadcast_to(np.arange(start, start + block.shape[1]), block.shape)
        scores = np.concatenate([scores, block], axis=1)
        rows = np.concatenate([rows, block_rows], axis=1)
        if scores.shape[1] > k:
            kept = np.argpartition(-scores, k - 1, axis=1)[:, :k]
            scores, rows = (np.take_along_axis(values, kept, axis=1) for values in (scores, rows))
    order = np.lexsort((rows, -scores), axis=1)  # equal scores in the order of the collection
    return tuple(np.take_along_axis(values, order, axis=1) for values in (rows, scores))


def _unit_vectors(pipeline, texts, name, batch_size):
    vectors, lengths = _vectors_and_lengths(pipeline, texts, name, batch_size)
    return vectors / lengths[:, np.newaxis]


def _vectors_and_lengths(pipeline, texts, name, batch_size):
    """Embeddings float32 [n, H], not copied where they are given so, and their lengths [n]."""
    _count(pipeline, texts, name)
    if not _are_embeddings(texts):
        texts = pipeline.predict(list(texts), batch_size=batch_size, verbose=0)["embedding"]
    vectors = np.asarray(texts, "float32")
    lengths = np.sqrt(np.einsum("nh,nh->n", vectors, vectors))
    if not np.isfinite(lengths).all():
        raise ValueError(f"search: expected `{name}` as finite numbers. Received: infinite or NaN ones")
    return vectors, np.maximum(lengths, 1e-12)


def _are_embeddings(texts):
    return isinstance(texts, np.ndarray) and texts.dtype.kind in "fiu"


def _count(pipeline, texts, name):
    """n of embeddings [n, H], or of strings that the pipeline can embed. Raises ValueError for anything else."""
    if _are_embeddings(texts):
        if texts.ndim != 2 or not len(texts):
            raise ValueError(f"search: expected `{name}` as embeddings [n, H]. Received: an array {texts.shape}")
        return len(texts)
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):  # of which a loop gives the names of the columns
        raise ValueError(
            f"search: expected `{name}` as a list of strings. Received: {type(texts).__name__}; give one of its columns"
        )
    if isinstance(texts, str) or not len(texts):
        raise ValueError(f"search: expected `{name}` as a list of strings, at least one. Received: {texts!r:.80}")
    task = None if pipeline is None else pipeline.model.task
    if task not in ("encoder", "similarity"):
        raise ValueError(
            f"search: expected `pipeline` of a model with embeddings, to embed the {name}. Received: "
            + ("None" if task is None else f"a {task} model")
        )
    return len(texts)
