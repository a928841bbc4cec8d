"""Heads of attention: where they look, and whether they follow syntax or stay in entities.

Shapes: A heads, S sequence, w words of a sentence; `...` any leading axes, such as layers and heads.
"""

from collections.abc import Sequence

import numpy as np

STATISTICS = ("entropy", "distance", "to_cls", "to_sep", "next", "previous")


def attention_statistics(probs, tokens: Sequence[str]) -> dict[str, np.ndarray]:
    """Means over the tokens of a text that attend.

    `probs` are [..., S, S], a row for each token that attends. Floats [...] come out by name:
    ``entropy`` of the rows in nats, ``distance`` in tokens weighted by attention, and shares of the
    attention: ``to_cls``, ``to_sep``, ``next`` and ``previous`` (where a token has such a
    neighbour).

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
    of_texts = [attention_statistics(*of_text) for of_text in zip(probs, tokens, strict=True)]
    weights = [len(of_text) for of_text in tokens]
    return {name: np.average([of_text[name] for of_text in of_texts], axis=0, weights=weights) for name in STATISTICS}


_MAX_OFFSET = 5  # words; a baseline always chooses the word at one offset


def word_attention(probs, word_of_token) -> np.ndarray:
    """Attention between words, [..., S, S] to [..., w, w], where w is the largest word number + 1.

    It is summed over the tokens that receive it and averaged over the tokens that attend.
    `word_of_token` has -1 for tokens outside of words ([CLS], [SEP]), so rows sum to less than 1.

    Source: Clark et al. 2019, section 4.1.
    """
    word_of_token = np.asarray(word_of_token)
    belongs = (word_of_token[:, np.newaxis] == np.arange(word_of_token.max(initial=-1) + 1)).astype("float64")  # [S, w]
    mean = belongs / np.maximum(belongs.sum(axis=0), 1)
    return mean.T @ np.asarray(probs, "float64") @ belongs


def head_accuracy(attention: Sequence, heads: Sequence) -> dict[str, np.ndarray]:
    """How often a word attends most to its syntactic head (``to_head``), or the head to it (``from_head``).

    `attention` has [..., w, w] for each sentence, `heads` ints [w], -1 for the root. ``baseline``
    is the accuracy of the best fixed offset, ``words`` how many words were counted.

    Source: Clark et al. 2019, section 4.2, with the baseline of its table 1.
    """
    to_head = from_head = 0.0
    words = 0
    offsets = np.zeros(2 * _MAX_OFFSET + 1, int)
    for row, (probs, parents) in enumerate(zip(attention, map(np.asarray, heads), strict=True)):
        count = probs.shape[-1]
        if parents.shape != (count,) or (parents.size and (parents.min() < -1 or parents.max() >= count)):
            raise ValueError(
                f"sentence {row}: expected a head from -1 to {count - 1} for each of {count} words. "
                f"Received: {parents.tolist()}"
            )
        has = np.flatnonzero(parents >= 0)
        others = np.where(np.eye(count, dtype=bool), -1.0, probs)  # a word is not its own head
        to_head = to_head + (others.argmax(axis=-1)[..., has] == parents[has]).sum(axis=-1)
        from_head = from_head + (others.argmax(axis=-1)[..., parents[has]] == has).sum(axis=-1)
        words += len(has)
        near = parents[has] - has
        offsets += np.bincount(near[np.abs(near) <= _MAX_OFFSET] + _MAX_OFFSET, minlength=len(offsets))
    if not words:
        raise ValueError("head_accuracy: expected a word with a head. Received: none")
    return {
        "to_head": to_head / words,
        "from_head": from_head / words,
        "baseline": float(offsets.max() / words),
        "words": words,
    }


def entity_attention(attention: Sequence, tags: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
    """How much of their attention the words of an entity of several words give to its other words.

    `attention` has [..., w, w] for each sentence, `tags` w tags in IOB2. ``share`` [...] is of the
    attention to other words, ``uniform`` what even attention would give, ``words`` how many words
    were counted. Shares are 0 if there is no such entity.
    """
    share = np.zeros(np.asarray(attention[0]).shape[:-2])
    uniform, words = 0.0, 0
    for probs, tags_of_words in zip(attention, tags, strict=True):
        groups = entity_numbers(tags_of_words)
        same = (groups[:, np.newaxis] == groups) & (groups >= 0) & ~np.eye(len(groups), dtype=bool)  # [w, w]
        rows = np.flatnonzero(same.any(axis=-1))
        others = np.where(np.eye(len(groups), dtype=bool), 0.0, probs)
        total = others[..., rows, :].sum(axis=-1)
        share = share + ((others * same)[..., rows, :].sum(axis=-1) / np.where(total > 0, total, 1.0)).sum(axis=-1)
        uniform += (same[rows].sum(axis=-1) / max(len(groups) - 1, 1)).sum()
        words += len(rows)
    return {"share": share / max(words, 1), "uniform": float(uniform / max(words, 1)), "words": words}


def entity_numbers(tags: Sequence[str]) -> np.ndarray:
    """The number of the entity that each word belongs to, int [w]; -1: none. Tags are IOB2."""
    numbers, last, before = [], -1, "O"
    for tag in tags:
        begins = tag.startswith("B-") or (tag.startswith("I-") and tag[2:] != before[2:])
        last += begins
        numbers.append(last if tag[:2] in ("B-", "I-") else -1)
        before = tag
    return np.array(numbers, int)
