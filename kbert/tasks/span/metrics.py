"""SQuAD's official scores: exact match, F1, their split, and the threshold for "no answer".

These follow the official evaluate-v1.1.py and evaluate-v2.0.py exactly.
"""

import collections
import re
import string
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

VERSIONS = ("1.1", "2.0")

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower case, without ASCII punctuation and English articles, words separated by one space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def token_f1(answer: str, gold: str, version: str = "2.0") -> float:
    """F1 of the shared words. If one answer has no words, 2.0 gives 1 if both have none, else 0."""
    ours, theirs = (normalize_answer(text).split() for text in (answer, gold))
    if version == "2.0" and not (ours and theirs):
        return float(ours == theirs)
    common = sum((collections.Counter(ours) & collections.Counter(theirs)).values())
    if not common:
        return 0.0
    precision = common / len(ours)
    recall = common / len(theirs)
    return 2 * precision * recall / (precision + recall)


def raw_scores(
    golds: Sequence[Sequence[str]], answers: Sequence[str] | np.ndarray, version: str = "2.0"
) -> tuple[np.ndarray, np.ndarray]:
    """Each answer's best (exact match, F1) against any of its right answers, float64 [questions] each.

    `golds` are the right answers of each question. If there are none, "" is right, which also means "no answer". The
    versions "1.1" and "2.0" differ for answers that are empty after normalisation.
    """
    if version not in VERSIONS:
        raise ValueError(f"raw_scores: `version` must be one of {VERSIONS}. Received: {version!r}")
    if len(golds) != len(answers):
        raise ValueError(f"raw_scores: expected an answer to each question. Received: {len(golds)}, {len(answers)}")
    exact = np.zeros(len(golds))
    f1 = np.zeros(len(golds))
    for row, (right, answer) in enumerate(zip(golds, answers, strict=True)):
        if version == "2.0":
            right = [text for text in right if normalize_answer(text)]
        right = right or [""]
        exact[row] = normalize_answer(answer) in map(normalize_answer, right)
        f1[row] = max(token_f1(answer, gold, version) for gold in right)
    return exact, f1


def squad_scores(
    golds: Sequence[Sequence[str]],
    answers: Sequence[str] | np.ndarray,
    *,
    odds: ArrayLike | None = None,
    threshold: float = 0.0,
    version: str = "2.0",
) -> dict[str, float]:
    """The official figures, in percent, of answers as if there were no "no answer".

    `odds`, floats [questions], say by how much "no answer" is better than the answer (`null_score - score`). The answer
    is "" if its odds are above the threshold. None: every answer is used as given (1.1).

    Returns ``exact``, ``f1`` and ``total``. If there are questions with and without answers, these also with
    ``HasAns_`` and ``NoAns_`` before them. With `odds` also ``best_exact``, ``best_exact_thresh``, ``best_f1`` and
    ``best_f1_thresh``.

    Source: evaluate-v1.1.py and evaluate-v2.0.py of rajpurkar.github.io/SQuAD-explorer.
    """
    raw = dict(zip(("exact", "f1"), raw_scores(golds, answers, version), strict=True))
    answerable = _answerable(golds)
    used = raw
    if odds is not None:
        odds = np.asarray(odds, "float64")
        used = {name: np.where(odds > threshold, ~answerable, values) for name, values in raw.items()}
    scores = _means(used, slice(None))
    if version == "2.0":
        for prefix, rows in (("HasAns_", answerable), ("NoAns_", ~answerable)):
            if rows.any():
                scores |= {prefix + name: value for name, value in _means(used, rows).items()}
    if odds is not None:
        for name, values in raw.items():
            best, at = _official_threshold(values, answers, odds, answerable)
            scores |= {f"best_{name}": best, f"best_{name}_thresh": at}
    return scores


def null_threshold(
    golds: Sequence[Sequence[str]], answers: Sequence[str] | np.ndarray, odds: ArrayLike, version: str = "2.0"
) -> float:
    """The threshold with the best F1, which is stored with a model. (The paper's τ has the other sign.)

    Thresholds between two neighbouring odds give the same answers. The middle is used, so that rounding changes no
    answer. Of thresholds with equal F1, the one with the fewest "no answer" is used.

    Questions whose context has no candidate are always answered with "" and do not affect the threshold. If there are
    no others, it is 0.
    """
    from kbert.answers.spans import NO_CANDIDATE  # not above: it loads TensorFlow

    _, f1 = raw_scores(golds, answers, version)
    odds = np.asarray(odds, "float64")
    asked = odds < -NO_CANDIDATE / 2  # the others are answered with "" under every threshold
    if not asked.any():
        return 0.0
    odds = odds[asked]
    f1 = f1[asked]
    answerable = _answerable(golds)[asked]
    order = np.argsort(odds, kind="stable")
    values, last = np.unique(odds[order][::-1], return_index=True)  # ascending; the last position of each value
    last = len(odds) - 1 - last
    gain = np.cumsum(f1[order] - ~answerable[order])  # the gain of answering the first n over answering none
    gains = np.concatenate([[0.0], gain[last]])
    best = len(gains) - 1 - int(np.argmax(np.round(gains, 9)[::-1]))
    edges = np.concatenate([[values[0] - 1], values, [values[-1] + 1]])
    return float((edges[best] + edges[best + 1]) / 2)


def _answerable(golds):
    return np.array([bool(right) for right in golds], bool)


def _means(scores, rows):
    return {name: 100.0 * float(np.mean(values[rows])) for name, values in scores.items()} | {
        "total": len(scores["f1"][rows])
    }


def _official_threshold(scores, answers, odds, answerable):
    """find_best_thresh of evaluate-v2.0.py: (best score in percent, threshold)."""
    current = best = float(np.sum(~answerable))
    threshold = 0.0
    for row in np.argsort(odds, kind="stable"):
        current += scores[row] if answerable[row] else -float(bool(answers[row]))
        if current > best:
            best = current
            threshold = float(odds[row])
    return 100.0 * best / len(scores), threshold
