"""Detects a cased vocabulary with a lower-casing tokenizer, or the reverse."""

import warnings

_FEW = 0.01  # uncased vocabularies have no tokens with capitals, cased ones 20 % and more


def looks_cased(vocabulary) -> bool:
    """Whether so many tokens have capitals that the vocabulary must be a cased one."""
    words, capitals = _count(vocabulary)
    return capitals > _FEW * len(words)


def warn_of_wrong_casing(vocabulary, lowercase: bool, source: str) -> None:
    """Warns if the vocabulary looks cased and the tokenizer lower-cases, or the reverse.

    It is no error: a model may have been trained that way, and must then be used that way.
    """
    words, capitals = _count(vocabulary)
    if lowercase and looks_cased(vocabulary):
        warnings.warn(
            f"{source}: {capitals} of {len(words)} tokens of the vocabulary have capitals, so it is a cased one, but "
            "the tokenizer lower-cases: it will never find them. Cased models need lowercase=False.",
            stacklevel=3,
        )
    letters = sum(any(c.isascii() and c.isalpha() for c in token) for token in words)
    if not lowercase and not capitals and letters > len(words) / 2:
        warnings.warn(
            f"{source}: no token of the vocabulary has a capital, so it is an uncased one, but the tokenizer does not "
            "lower-case: every word with a capital becomes [UNK]. Uncased models need lowercase=True.",
            stacklevel=3,
        )


def _count(vocabulary):
    """The tokens that are not special, and how many of them have capitals."""
    words = [token for token in vocabulary if not (token.startswith("[") and token.endswith("]"))]
    return words, sum(token != token.lower() for token in words)
