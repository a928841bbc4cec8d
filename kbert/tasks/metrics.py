"""The metrics of texts with labels, GLUE's among them, in NumPy and float64.

An undefined metric (no positive example and none predicted, a constant series) is 0.0, so that every result can be
written as JSON and compared.

Shapes: n examples, N labels, H hidden, q queries, k results.
"""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import ArrayLike


def accuracy(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Fraction of equal entries."""
    labels, predictions = _same_shape(labels, predictions)
    return float(np.mean(labels == predictions))


def f1(labels: ArrayLike, predictions: ArrayLike, positive: int = 1) -> float:
    """Harmonic mean of precision and recall of the class `positive`. As a task's metric it is for two classes only."""
    labels, predictions = _same_shape(labels, predictions)
    hits = np.sum((labels == positive) & (predictions == positive))
    named = np.sum(labels == positive) + np.sum(predictions == positive)
    return float(2 * hits / named) if named else 0.0


def macro_f1(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Mean F1 over the classes that occur in either series."""
    labels, predictions = _same_shape(labels, predictions)
    classes = np.union1d(labels, predictions)
    return float(np.mean([f1(labels, predictions, c) for c in classes]))


def precision_recall_f1(right: int, gold: int, predicted: int) -> dict[str, float]:
    """Precision, recall and F1, from the numbers of right, of gold and of predicted things."""
    precision = right / predicted if predicted else 0.0
    recall = right / gold if gold else 0.0
    both = precision + recall
    return {"precision": precision, "recall": recall, "f1": 2 * precision * recall / both if both else 0.0}


def scores_by_label(labels: ArrayLike, predictions: ArrayLike, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of each label, with the number of examples that have it and that are given it.

    `labels` and `predictions` are class numbers [n], or tables [n, N] of 0 and 1. `names` are those of the N labels.
    """
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    if labels.ndim == 2:  # as the class numbers of all that are on
        is_right = (labels == 1) & (predictions == 1)
        right, gold, guesses = (np.nonzero(is_on)[1] for is_on in (is_right, labels == 1, predictions == 1))
    else:
        right, gold, guesses = labels[labels == predictions], labels, predictions
    counts = [np.bincount(numbers, minlength=len(names)).tolist() for numbers in (right, gold, guesses)]
    return {
        name: precision_recall_f1(hits, has, given) | {"examples": has, "predicted_examples": given}
        for name, hits, has, given in zip(names, *counts, strict=True)
    }


def matthews(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Matthews' correlation of two series of classes. For two it is the φ coefficient (Gorodkin 2004 for more)."""
    labels, predictions = _same_shape(labels, predictions)
    classes = np.union1d(labels, predictions)
    truth = (labels[:, None] == classes).astype("float64")
    guess = (predictions[:, None] == classes).astype("float64")
    return _correlation(truth - truth.mean(0), guess - guess.mean(0))


def pearson(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Pearson's linear correlation."""
    labels, predictions = (np.asarray(v, "float64") for v in _same_shape(labels, predictions))
    if np.ptp(labels) == 0 or np.ptp(predictions) == 0:  # the deviations of a constant from its rounded mean are noise
        return 0.0
    return _correlation(labels - labels.mean(), predictions - predictions.mean())


def spearman(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Spearman's rank correlation. Equal values share the mean of their ranks."""
    labels, predictions = _same_shape(labels, predictions)
    return pearson(_ranks(labels), _ranks(predictions))


def mean_squared_error(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Mean of the squared differences."""
    labels, predictions = (np.asarray(v, "float64") for v in _same_shape(labels, predictions))
    return float(np.mean((labels - predictions) ** 2))


def mean_absolute_error(labels: ArrayLike, predictions: ArrayLike) -> float:
    """Mean of the absolute differences."""
    labels, predictions = (np.asarray(v, "float64") for v in _same_shape(labels, predictions))
    return float(np.mean(np.abs(labels - predictions)))


def cosine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine similarity of the rows of two arrays [n, H], or of two vectors. It is 0 where one of them is zero."""
    lengths = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    return np.sum(first * second, axis=-1) / np.maximum(lengths, 1e-12)


CLASS_METRICS = {f.__name__: f for f in (accuracy, f1, macro_f1, matthews)}
NUMBER_METRICS = {f.__name__: f for f in (pearson, spearman, mean_squared_error, mean_absolute_error)}
LOWER_IS_BETTER = ("mean_squared_error", "mean_absolute_error")  # all others are better when higher
OWN_METRICS = {  # for a user's own data, by the model's task; a benchmark names its official ones
    "classification": ("accuracy", "macro_f1", "matthews"),
    "multi_label": ("micro_f1", "macro_f1", "subset_accuracy"),
    "regression": ("pearson", "spearman"),
}


def metrics_of(labels: ArrayLike) -> dict:
    """The metrics by name for class numbers [n], other numbers [n], or a table [n, N] of 0 and 1."""
    if np.ndim(labels) == 2:
        return MULTI_LABEL_METRICS
    return CLASS_METRICS if np.issubdtype(np.asarray(labels).dtype, np.integer) else NUMBER_METRICS


def _micro_f1(labels, predictions):
    labels, predictions = _same_shape(labels, predictions, 2)
    return f1(labels.ravel(), predictions.ravel())


def _mean_f1(labels, predictions):
    labels, predictions = _same_shape(labels, predictions, 2)
    return float(np.mean([f1(truth, guess) for truth, guess in zip(labels.T, predictions.T, strict=True)]))


def _subset_accuracy(labels, predictions):
    labels, predictions = _same_shape(labels, predictions, 2)
    return float(np.mean(np.all(labels == predictions, axis=1)))


# Of tables [n, N] of 0 and 1: F1 of all decisions together, its mean over the labels, the fraction of right rows.
MULTI_LABEL_METRICS = {"micro_f1": _micro_f1, "macro_f1": _mean_f1, "subset_accuracy": _subset_accuracy}


def _correlation(a, b):
    scale = np.sqrt(np.sum(a * a) * np.sum(b * b))
    return float(np.sum(a * b) / scale) if scale else 0.0


def _ranks(values):
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


_COMPARED = {1: "A metric compares two series", 2: "A metric of several labels compares two tables [n, N]"}


def _same_shape(labels, predictions, axes: int = 1):
    labels = np.asarray(labels)
    predictions = np.asarray(predictions)
    if labels.ndim != axes or labels.shape != predictions.shape or not labels.size:
        raise ValueError(
            f"{_COMPARED[axes]} of the same length, at least 1. Received: shapes {labels.shape} and {predictions.shape}"
        )
    return labels, predictions


SEARCH_METRICS = ("recall@1", "recall@10", "mrr@10", "ndcg@10")
_DEPTH = 10


def search_scores(
    results: np.ndarray, relevant: Sequence[Collection[int]], recall_at: Sequence[int] = (1, 10)
) -> dict[str, float]:
    """The means over all queries of ``recall@k`` for each k, ``mrr@10`` and ``ndcg@10``.

    Recall is the fraction of the right texts that is among the first k. The reciprocal rank is 1 / place of the first
    right text.

    Args:
        results: integers [q, n], the results of each query, the best first; where they are fewer than k, all are read.
        relevant: for each query the texts that are right, at least one.
        recall_at: the values of k.

    Returns:
        The means.

    Example::

        found = kbert.search(pipeline, documents, ["When can I visit you?"])
        search_scores(found.rows, [{1}])
    """
    hits = np.zeros((len(relevant), max(_DEPTH, *recall_at)))
    for row, (row_of_results, right) in enumerate(zip(results, relevant, strict=True)):
        hits[row, : len(row_of_results)] = np.isin(row_of_results, list(right))[: hits.shape[1]]
    counts = np.array([len(right) for right in relevant])
    recall = {f"recall@{k}": float(np.mean(hits[:, :k].sum(axis=1) / counts)) for k in recall_at}
    hits = hits[:, :_DEPTH]
    gains = 1.0 / np.log2(np.arange(2, _DEPTH + 2))
    best_gains = np.cumsum(gains)[np.minimum(counts, _DEPTH) - 1]
    first = np.where(hits.any(axis=1), 1.0 / (hits.argmax(axis=1) + 1), 0.0)
    return recall | {"mrr@10": float(np.mean(first)), "ndcg@10": float(np.mean(hits @ gains / best_gains))}


def random_search_scores(texts: int) -> dict[str, float]:
    """What a random order of so many texts, of which one is right, reaches on average."""
    places = np.arange(1, min(_DEPTH, texts) + 1)
    return {
        "recall@1": 1 / texts,
        "recall@10": len(places) / texts,
        "mrr@10": float(np.sum(1 / places)) / texts,
        "ndcg@10": float(np.sum(1 / np.log2(places + 1))) / texts,
    }
