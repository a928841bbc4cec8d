"""What the heads of an encoder look at, in numbers.

Shapes: S sequence; `...` any leading axes, such as layers and heads.
"""

from collections.abc import Sequence

import numpy as np

STATISTICS = ("entropy", "distance", "to_cls", "to_sep", "next", "previous")


def attention_statistics(probs, tokens: Sequence[str]) -> dict[str, np.ndarray]:
    """Means over the tokens of a text that attend.

    Args:
        probs: [..., S, S], a row for each token that attends, which sums to 1.
        tokens: the S tokens; of these ``[CLS]`` and ``[SEP]`` are known by their names.

    Returns:
        dict of float arrays [...]: ``entropy`` of the rows in nats (0: one token gets all, ln S: all alike);
        ``distance`` in tokens, weighted by attention; ``to_cls`` and ``to_sep``: the share of the attention that [CLS]
        and all [SEP] get; ``next`` and ``previous``: the share that goes to the token after and before, of the tokens
        that have one.

    Source: Clark et al. 2019, "What Does BERT Look At?", sections 3.1 to 3.3.
    """
    probs, count = np.asarray(probs, "float64"), len(tokens)
    if probs.ndim < 2 or probs.shape[-2:] != (count, count) or not count:
        raise ValueError(
            f"attention_statistics: expected `probs` [..., S, S] of as many tokens as `tokens` has, {count}. "
            f"Received: shape {probs.shape}"
        )
    place = np.arange(count)
    is_cls, is_sep = (np.array([token == name for token in tokens], bool) for name in ("[CLS]", "[SEP]"))
    nothing = np.zeros(probs.shape[:-2])
    return {
        "entropy": -(probs * np.log(np.where(probs > 0, probs, 1.0))).sum(axis=-1).mean(axis=-1),
        "distance": (probs * np.abs(place - place[:, np.newaxis])).sum(axis=-1).mean(axis=-1),
        "to_cls": probs[..., is_cls].sum(axis=-1).mean(axis=-1),
        "to_sep": probs[..., is_sep].sum(axis=-1).mean(axis=-1),
        "next": probs[..., place[:-1], place[1:]].mean(axis=-1) if count > 1 else nothing,
        "previous": probs[..., place[1:], place[:-1]].mean(axis=-1) if count > 1 else nothing,
    }


def mean_statistics(probs: Sequence, tokens: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
    """`attention_statistics` of several texts, each weighing as much as it has tokens."""
    found = [attention_statistics(*one) for one in zip(probs, tokens, strict=True)]
    weights = [len(one) for one in tokens]
    return {name: np.average([one[name] for one in found], axis=0, weights=weights) for name in STATISTICS}
