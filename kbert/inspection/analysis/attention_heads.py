"""Heads of attention: where they look, and whether they follow syntax or stay in entities.

Shapes: A heads, S sequence, w words of a sentence; `...` any leading axes, such as layers and heads.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from kbert.inspection.analysis.labelled_data import LabelledData
from kbert.inspection.analysis.states import encoder_with_attention, states_and_attention

if TYPE_CHECKING:
    from kbert.models.encoder import BertEncoder
    from kbert.text.tokenizer import BertTokenizer

_MAX_OFFSET = 5  # words; a baseline always chooses the word at one offset
_SENTENCES = 200  # of several words; more would hardly change the fractions
STATISTICS = {  # name → what it means, for readers
    "entropy": "Entropy of a head's attention, in nats: low where it looks at one token, high where at many.",
    "distance": "How far away a head looks, in tokens.",
    "to_cls": "Fraction of the attention that goes to [CLS].",
    "to_sep": "Fraction of the attention that goes to [SEP]: heads that find nothing to look at put it there.",
    "next": "Fraction of the attention that goes to the next token.",
    "previous": "Fraction of the attention that goes to the token before.",
}


def attention_statistics(probs: ArrayLike, tokens: Sequence[str]) -> dict[str, np.ndarray]:
    """The `STATISTICS` [...] of attention [..., S, S]: means over the tokens that attend, the rows.

    Source: Clark et al. 2019, "What Does BERT Look At?", sections 3.1 to 3.3.
    """
    probs = np.asarray(probs, "float64")
    place = np.arange(len(tokens))
    is_cls, is_sep = (np.array([token == name for token in tokens]) for name in ("[CLS]", "[SEP]"))
    nothing = np.zeros(probs.shape[:-2])
    return {
        "entropy": -(probs * np.log(np.where(probs > 0, probs, 1.0))).sum(axis=-1).mean(axis=-1),
        "distance": (probs * np.abs(place - place[:, np.newaxis])).sum(axis=-1).mean(axis=-1),
        "to_cls": probs[..., is_cls].sum(axis=-1).mean(axis=-1),
        "to_sep": probs[..., is_sep].sum(axis=-1).mean(axis=-1),
        "next": probs[..., place[:-1], place[1:]].mean(axis=-1) if len(tokens) > 1 else nothing,
        "previous": probs[..., place[1:], place[:-1]].mean(axis=-1) if len(tokens) > 1 else nothing,
    }


def mean_statistics(probs: Sequence, tokens: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
    """`attention_statistics` of several texts, each weighing as much as it has tokens."""
    of_texts = [attention_statistics(*of_text) for of_text in zip(probs, tokens, strict=True)]
    weights = [len(of_text) for of_text in tokens]
    return {name: np.average([of_text[name] for of_text in of_texts], axis=0, weights=weights) for name in STATISTICS}


def heads_and_words(
    encoder: "BertEncoder", tokenizer: "BertTokenizer", data: LabelledData, sequence_length: int = 128
) -> dict:
    """Agreement of the heads with ``syntax`` and ``entities`` in the sentences that fit into a window."""
    if data.tags is None and data.heads is None:
        return {}
    encoder = encoder_with_attention(encoder)
    length = min(sequence_length, encoder.config.max_sequence_length)
    attention = []
    rows = []
    for row, words in enumerate(data.rows):
        if len(rows) == _SENTENCES:
            break
        pieces = [ids or [tokenizer.unk_id] for ids in tokenizer(list(words)).to_list()]
        ids = [tokenizer.cls_id, *(n for piece in pieces for n in piece), tokenizer.sep_id]
        if len(words) < 2 or len(ids) > length:
            continue
        word_of_token = np.array([-1, *(n for n, piece in enumerate(pieces) for _ in piece), -1])
        ids = np.array([ids], "int32")
        batch = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": np.ones(ids.shape, bool)}
        attention.append(word_attention(states_and_attention(encoder, batch)[1], word_of_token))
        rows.append(row)
    findings = {}
    if attention and data.heads is not None:
        findings["syntax"] = head_accuracy(attention, [data.heads[row] for row in rows])
    if attention and data.tags is not None:
        findings["entities"] = entity_attention(attention, [data.tags[row] for row in rows])
    return {name: finding for name, finding in findings.items() if finding["words"]}


def word_attention(probs: ArrayLike, word_of_token: ArrayLike) -> np.ndarray:
    """Attention between words, [..., S, S] to [..., w, w]: summed over receiving, averaged over attending tokens.

    `word_of_token` has -1 for tokens outside of words ([CLS], [SEP]), so rows sum to less than 1.

    Source: Clark et al. 2019, section 4.1.
    """
    word_of_token = np.asarray(word_of_token)
    belongs = (word_of_token[:, np.newaxis] == np.arange(word_of_token.max(initial=-1) + 1)).astype("float64")  # [S, w]
    mean = belongs / np.maximum(belongs.sum(axis=0), 1)
    return mean.T @ np.asarray(probs, "float64") @ belongs


def head_accuracy(attention: Sequence, heads: Sequence) -> dict[str, np.ndarray]:
    """How often a word attends most to its syntactic head (``to_head``), or the head to it (``from_head``).

    `attention` has [..., w, w] for each sentence, `heads` ints [w], -1 for the root. ``baseline`` is the accuracy of
    the best fixed offset, ``words`` how many words were counted.

    Source: Clark et al. 2019, section 4.2, with the baseline of its table 1.
    """
    to_head = from_head = 0.0
    words = 0
    offsets = np.zeros(2 * _MAX_OFFSET + 1, int)
    for probs, parents in zip(attention, map(np.asarray, heads), strict=True):
        has = np.flatnonzero(parents >= 0)
        others = np.where(np.eye(len(parents), dtype=bool), -1.0, probs)  # a word is not its own head
        to_head = to_head + (others.argmax(axis=-1)[..., has] == parents[has]).sum(axis=-1)
        from_head = from_head + (others.argmax(axis=-1)[..., parents[has]] == has).sum(axis=-1)
        words += len(has)
        near = parents[has] - has
        offsets += np.bincount(near[np.abs(near) <= _MAX_OFFSET] + _MAX_OFFSET, minlength=len(offsets))
    count = max(words, 1)
    return {
        "to_head": to_head / count,
        "from_head": from_head / count,
        "baseline": float(offsets.max() / count),
        "words": words,
    }


def entity_attention(attention: Sequence, tags: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
    """How much of their attention the words of a longer entity give to its other words, themselves left out.

    `attention` has [..., w, w] for each sentence, `tags` w tags in IOB2. ``fraction`` is [...], ``uniform`` what even
    attention would give, ``words`` how many words were counted.
    """
    fraction = np.zeros(np.asarray(attention[0]).shape[:-2])
    uniform, words = 0.0, 0
    for probs, tags_of_words in zip(attention, tags, strict=True):
        groups = entity_numbers(tags_of_words)
        same = (groups[:, np.newaxis] == groups) & (groups >= 0) & ~np.eye(len(groups), dtype=bool)  # [w, w]
        rows = np.flatnonzero(same.any(axis=-1))
        others = np.where(np.eye(len(groups), dtype=bool), 0.0, probs)
        total = others[..., rows, :].sum(axis=-1)
        fraction = fraction + ((others * same)[..., rows, :].sum(axis=-1) / np.where(total > 0, total, 1.0)).sum(
            axis=-1
        )
        uniform += (same[rows].sum(axis=-1) / max(len(groups) - 1, 1)).sum()
        words += len(rows)
    return {"fraction": fraction / max(words, 1), "uniform": float(uniform / max(words, 1)), "words": words}


def entity_numbers(tags: Sequence[str]) -> np.ndarray:
    """The number of the entity that each word belongs to, int [w]; -1: none. Tags are IOB2."""
    numbers = []
    last = -1
    before = "O"
    for tag in tags:
        begins = tag.startswith("B-") or (tag.startswith("I-") and tag[2:] != before[2:])
        last += begins
        numbers.append(last if tag[:2] in ("B-", "I-") else -1)
        before = tag
    return np.array(numbers, int)
