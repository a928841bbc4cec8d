"""Literal special tokens in text, such as the [MASK] of a fill-mask prompt, or markers of your own.

Shapes: B strings.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from kbert.checks import check_option
from kbert.text.vocabulary import SPECIAL_TOKENS

# Code points of the CJK Compatibility Ideographs block that Unicode has not assigned: normalisation does not change
# them, and the WordPiece op, for which the whole block is CJK, makes a word of each. One that occurs in a text is
# unknown to any vocabulary, and is replaced by another such.
_FIRST_SENTINEL = 0xFADA
_SUBSTITUTE = "\ufaff"
MOST = ord(_SUBSTITUTE) - _FIRST_SENTINEL


def check_special_tokens(value: Any, owner: str) -> bool | tuple[str, ...]:
    """The option `special_tokens_in_text` of a tokenizer, checked: True, False, or a tuple of tokens."""
    if isinstance(value, list | tuple) and value:
        is_right = all(isinstance(token, str) and token.strip() == token != "" for token in value)
        if not is_right or len(set(value)) < len(value) or len(value) > MOST:
            raise ValueError(
                f"{owner}: `special_tokens_in_text` must be True, False, or 1 to {MOST} different tokens without "
                f"spaces at their ends. Received: {value!r:.200}"
            )
        return tuple(value)
    return value not in ([], ()) and check_option(owner, "special_tokens_in_text", value, bool)


def plain_special_tokens(value: bool | tuple[str, ...]) -> bool | list[str]:
    """The option as JSON has it."""
    return list(value) if isinstance(value, tuple) else value


def tokens_in_text(value: bool | tuple[str, ...]) -> tuple[str, ...]:
    """The tokens that are read in text (True: BERT's five); a longer one before its own beginnings."""
    tokens = {True: SPECIAL_TOKENS, False: ()}[value] if isinstance(value, bool) else value
    return tuple(sorted(tokens, key=len, reverse=True))


def sentinels_of(tokens: Iterable[str]) -> dict[str, str]:
    """A character for each token."""
    return {token: chr(_FIRST_SENTINEL + i) for i, token in enumerate(tokens)}


def insert_sentinels(strings: tf.Tensor, tokens: Iterable[str]) -> tf.Tensor:
    """Strings [B] with one character, which normalisation keeps, for each literal token."""
    sentinels = sentinels_of(tokens)
    strings = tf.strings.regex_replace(strings, f"[{''.join(sentinels.values())}]", _SUBSTITUTE)
    for token, sentinel in sentinels.items():
        strings = tf.strings.regex_replace(strings, re.escape(token), sentinel)
    return strings


def source_lengths(code_points: tf.Tensor, tokens: Sequence[str]) -> tf.Tensor:
    """How many characters of the source each character of `insert_sentinels` stands for: int32 to int32."""
    lengths = tf.constant([len(token) for token in tokens])
    index = code_points - _FIRST_SENTINEL
    is_sentinel = (index >= 0) & (index < len(tokens))
    return tf.where(is_sentinel, tf.gather(lengths, tf.where(is_sentinel, index, 0)), 1)
