"""Precision, recall and F1 of entities, as CoNLL's evaluation script (conlleval) counts them."""

import collections
from collections.abc import Sequence

# (tag before, tag) that separate two entities of the same type.
_PARTED = {("B", "B"), ("I", "B"), ("E", "E"), ("E", "I")}


def entity_chunks(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """The entities of one sentence, (first word, last word + 1, type), by conlleval's rules.

    Tags are B-type, I-type (E-type as conlleval has it) and O. A sequence need not follow any scheme: an I- that does
    not follow an entity of its type begins one, so IOB1 and IOB2 are read alike. Tags of BIOES or BILOU that conlleval
    does not know (S, L, U) must be converted first (`kbert.tasks.tagging.tag_scheme.to_iob2`).
    """
    chunks = []
    start = 0
    before = ("O", "")
    for n, tag in enumerate([*tags, "O"]):
        prefix, _, type_ = tag.partition("-")
        if prefix not in ("O", "B", "I", "E"):
            raise ValueError(f"entity_chunks: expected the prefixes B, I, E and O. Received: {tag!r}")
        now = (prefix, type_)
        if before[0] != "O" and (now[0] == "O" or now[1] != before[1] or (before[0], now[0]) in _PARTED):
            chunks.append((start, n, before[1]))
            start = n
        elif before[0] == "O":
            start = n
        before = now
    return chunks


def entity_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict:
    """Precision, recall and F1 of the entities, of all and of each type, and the accuracy of the tags.

    An entity is right if its first and last word and its type are. Undefined values (nothing predicted, no entities)
    are 0, as in conlleval. Entities do not cross sentence borders.

    Returns:
        ``{"precision", "recall", "f1", "accuracy", "entities", "predicted_entities", "types": {type: {"precision",
            "recall", "f1", "entities", "predicted_entities"}}}``, with shares in [0, 1].

    Source: Tjong Kim Sang and Buchholz 2000, the script conlleval.
    """
    if len(gold) != len(predicted) or any(len(a) != len(b) for a, b in zip(gold, predicted, strict=True)):
        raise ValueError(
            "entity_scores: expected a predicted tag for every tag. "
            f"Received: {sum(map(len, gold))} tags in {len(gold)} sentences and {sum(map(len, predicted))} in "
            f"{len(predicted)}, or other lengths of a sentence"
        )
    words = sum(map(len, gold))
    if not words:
        raise ValueError("entity_scores: expected at least one word. Received: none")
    there, found, right = (collections.Counter() for _ in range(3))
    same = 0
    for truth, guess in zip(gold, predicted, strict=True):
        same += sum(a == b for a, b in zip(truth, guess, strict=True))
        truth = entity_chunks(truth)
        guess = entity_chunks(guess)
        there.update(type_ for _, _, type_ in truth)
        found.update(type_ for _, _, type_ in guess)
        right.update(type_ for _, _, type_ in set(truth) & set(guess))
    types = {type_: _scores(there[type_], found[type_], right[type_]) for type_ in sorted(there | found)}
    total = _scores(there.total(), found.total(), right.total())
    return {**total, "accuracy": same / words, "types": types}


def _scores(there, found, right):
    precision = right / found if found else 0.0
    recall = right / there if there else 0.0
    both = precision + recall
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / both if both else 0.0,
        "entities": there,
        "predicted_entities": found,
    }
