"""The schemes for entities as tags of words (IOB1, IOB2, BIOES, BILOU), conversion to IOB2, and the entities' scores.

words   U.S.   Peter  Blackburn  Jane   .
IOB1    I-LOC  I-PER  I-PER      B-PER  O      B- only after an entity of the same type
IOB2    B-LOC  B-PER  I-PER      B-PER  O      B- at every entity's first word
BIOES   S-LOC  B-PER  E-PER      S-PER  O      E- at its last word, S- at the only one
BILOU   U-LOC  B-PER  L-PER      U-PER  O      the same with L and U
plain   PROPN  PROPN  PROPN      PROPN  PUNCT  no entities: each tag is a label of its word
"""

import collections
from collections.abc import Sequence

import numpy as np

from kbert.tasks.metrics import accuracy, precision_recall_f1, scores_by_label

_PREFIXES = {"iob1": "BI", "iob2": "BI", "bioes": "BIES", "bilou": "BILU"}
PLAIN = "plain"
_OF_BIOES = str.maketrans("LU", "ES")


class BrokenTags(ValueError):
    """A tag sequence that breaks its scheme; `word` is the position in the sentence."""

    def __init__(self, word: int, message: str) -> None:
        super().__init__(message)
        self.word = word


def split_tag(tag: str) -> tuple[str, str]:
    """ "B-PER" → ("B", "PER"); "O" → ("O", ""). Anything else raises a ValueError."""
    if tag == "O":
        return "O", ""
    if not has_prefix(tag):
        raise ValueError(f"expected O or a tag like B-PER (prefixes B I E S L U). Received: {tag!r}")
    prefix, _, type_ = tag.partition("-")
    return prefix, type_


def has_prefix(tag: str) -> bool:
    """Whether a tag is that of a word in an entity, such as B-PER."""
    prefix, hyphen, type_ = tag.partition("-")
    return len(prefix) == 1 and prefix in "BIESLU" and bool(hyphen and type_)


def are_plain(sentences: Sequence[Sequence[str]]) -> bool:
    """Whether sentences have tags besides O, and none of them has a prefix."""
    tags = set().union(*sentences) - {"O"}
    return bool(tags) and not any(map(has_prefix, tags))


def recognise_scheme(sentences: Sequence[Sequence[str]]) -> str:
    """Detects the scheme of the entities in sentences, so that a sentence that breaks it can be found.

    Files with E or S tags are BIOES, with L or U tags BILOU. Other files are IOB1 if more entities begin with I- than
    with a B- that IOB1 does not need. The rest, and files without entities, are IOB2.
    """
    prefixes = set()
    needless_b = 0
    lone_i = 0
    for tags in sentences:
        before = ("O", "")
        for tag in tags:
            now = split_tag(tag)
            prefixes.add(now[0])
            follows = before[0] != "O" and before[1] == now[1]
            needless_b += now[0] == "B" and not follows
            lone_i += now[0] == "I" and not follows
            before = now
    if prefixes & set("LU"):
        return "bilou"
    if prefixes & set("ES"):
        return "bioes"
    return "iob1" if lone_i > needless_b else "iob2"


def to_iob2(tags: Sequence[str], scheme: str) -> list[str]:
    """One sentence's tags, from `scheme` to IOB2, exactly. A sequence that breaks its scheme raises `BrokenTags`.

    In IOB1 every sequence is valid: a B- instead of an I- has the same meaning (CoNLL's eng.train has two).
    """
    pairs = []
    for n, tag in enumerate(tags):
        prefix, type_ = split_tag(tag)
        if prefix not in _PREFIXES[scheme] + "O":
            raise BrokenTags(n, f"{scheme.upper()} has the prefixes {list(_PREFIXES[scheme])} and O. Received: {tag!r}")
        pairs.append((prefix.translate(_OF_BIOES), type_))
    if scheme in ("bioes", "bilou"):
        _check_closed(pairs, tags, scheme)
    converted = []
    before = ("O", "")
    for n, (prefix, type_) in enumerate(pairs):
        follows = before[0] != "O" and before[1] == type_
        if prefix == "I" and scheme == "iob2" and not follows:
            raise BrokenTags(n, _after(scheme, tags, n, f"B-{type_} or I-{type_}"))
        begins = prefix in "BS" or (prefix == "I" and not follows)
        converted.append("O" if prefix == "O" else f"{'B' if begins else 'I'}-{type_}")
        before = prefix, type_
    return converted


def convert_sentences(
    places: Sequence[Sequence[str]], sentences: Sequence[Sequence[str]], scheme: str | None = None, hint: str = ""
) -> list[list[str]]:
    """The tags of all sentences in IOB2, from a scheme of entities. `scheme` None is recognised from all of them.

    `places` says where each tag of each sentence is, for messages. `hint` ends that of a tag without a prefix.
    """
    for where, tags in zip(places, sentences, strict=True):
        for place, tag in zip(where, tags, strict=True):
            try:
                split_tag(tag)
            except ValueError as error:
                raise ValueError(f"{place}: {error}{hint}") from None
    its_scheme = scheme or recognise_scheme(sentences)
    converted = []
    for where, tags in zip(places, sentences, strict=True):
        try:
            converted.append(to_iob2(tags, its_scheme))
        except BrokenTags as error:
            why = "" if scheme else f" (the tags look like {its_scheme.upper()})"
            raise ValueError(f"{where[error.word]}: {error}{why}") from None
    return converted


def _check_closed(pairs, tags, scheme):
    """BIOES: I and E continue an entity that B began, and E ends it."""
    is_open = ""
    for n, (prefix, type_) in enumerate(pairs):
        if is_open and (prefix not in "IE" or type_ != is_open):
            raise BrokenTags(
                n, f"{scheme.upper()} has to end the entity that {tags[n - 1]} leaves open. Received: {tags[n]}"
            )
        if not is_open and prefix in "IE":
            raise BrokenTags(n, _after(scheme, tags, n, f"B-{type_} or I-{type_}"))
        is_open = type_ if prefix in "BI" else ""
    if is_open:
        raise BrokenTags(
            len(pairs) - 1,
            f"{scheme.upper()} has to end the entity that {tags[-1]} leaves open. Received: the end of the sentence",
        )


def _after(scheme, tags, n, wanted):
    before = tags[n - 1] if n else "the start of the sentence"
    return f"{scheme.upper()} allows {tags[n]} only after {wanted}. Received: {tags[n]} after {before}"


# (tag before, tag) that separate two entities of the same type.
_PARTED = {("B", "B"), ("I", "B"), ("E", "E"), ("E", "I")}


def entity_chunks(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """The entities of one sentence, (first word, last word + 1, type), by conlleval's rules.

    Tags are B-type, I-type (E-type as conlleval has it) and O. A sequence need not follow any scheme: an I- that does
    not follow an entity of its type begins one, so IOB1 and IOB2 are read alike. Tags of BIOES or BILOU that conlleval
    does not know (S, L, U) must be converted first (`to_iob2`).
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

    Args:
        gold: the right tags of each sentence, B-, I- and O.
        predicted: as many of each.

    Returns:
        dict: ``precision``, ``recall``, ``f1``, ``accuracy`` (floats in [0, 1]), ``entities``, ``predicted_entities``
            (counts), and ``types``: type → dict of the same without ``accuracy``.

    Raises:
        ValueError: no words, or sentences of other lengths.

    Source: Tjong Kim Sang and Buchholz 2000, the script conlleval.

    Example::

        entity_scores([["B-PER", "I-PER", "O"]], [["B-PER", "O", "O"]])["f1"]  # 0.0
    """
    words = sum(map(len, gold))
    if not words:
        raise ValueError("entity_scores: expected at least one word. Received: none")
    entities = collections.Counter()  # by type
    guesses = collections.Counter()
    right = collections.Counter()
    same = 0
    for truth, guess in zip(gold, predicted, strict=True):
        same += sum(a == b for a, b in zip(truth, guess, strict=True))
        truth = entity_chunks(truth)
        guess = entity_chunks(guess)
        entities.update(type_ for _, _, type_ in truth)
        guesses.update(type_ for _, _, type_ in guess)
        right.update(type_ for _, _, type_ in set(truth) & set(guess))
    types = {type_: _scores(entities[type_], guesses[type_], right[type_]) for type_ in sorted(entities | guesses)}
    total = _scores(entities.total(), guesses.total(), right.total())
    return {**total, "accuracy": same / words, "types": types}


def tag_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict:
    """The accuracy of plain tags, and precision, recall and F1 of each.

    Returns:
        ``{"accuracy", "labels": …}``, the latter from `kbert.tasks.metrics.scores_by_label`, with words as examples.
    """
    names = sorted(set().union(*gold, *predicted))
    numbers = {name: number for number, name in enumerate(names)}
    labels, guesses = (np.array([numbers[tag] for tags in each for tag in tags]) for each in (gold, predicted))
    return {"accuracy": accuracy(labels, guesses), "labels": scores_by_label(labels, guesses, names)}


def _scores(entities, guesses, right):
    scores = precision_recall_f1(right, entities, guesses)
    return {**scores, "entities": entities, "predicted_entities": guesses}
