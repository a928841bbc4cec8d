"""Literal special tokens in text, such as the [MASK] of a fill-mask prompt.

Shapes: B strings.
"""

import re

import tensorflow as tf

from kbert.text.vocabulary import SPECIAL_TOKENS

# Code points of the CJK Compatibility Ideographs block that Unicode has not assigned: normalisation does not change
# them, and the WordPiece op, for which the whole block is CJK, makes a word of each. One that occurs in a text is
# unknown to any vocabulary, and is replaced by another such.
_FIRST_SENTINEL = 0xFAF0
_SUBSTITUTE = "\ufaff"
SENTINELS = tuple(chr(_FIRST_SENTINEL + i) for i in range(len(SPECIAL_TOKENS)))  # one for each special token


def insert_sentinels(strings):
    """Replaces each literal special token by one character, which normalisation keeps: strings [B] (UTF-8) to [B]."""
    strings = tf.strings.regex_replace(strings, f"[{''.join(SENTINELS)}]", _SUBSTITUTE)
    for sentinel, token in zip(SENTINELS, SPECIAL_TOKENS, strict=True):
        strings = tf.strings.regex_replace(strings, re.escape(token), sentinel)
    return strings


def source_lengths(code_points):
    """How many characters of the source each character of `insert_sentinels` stands for: int32 to int32."""
    lengths = tf.constant([len(token) for token in SPECIAL_TOKENS])
    index = code_points - _FIRST_SENTINEL
    is_sentinel = (index >= 0) & (index < len(SPECIAL_TOKENS))
    return tf.where(is_sentinel, tf.gather(lengths, tf.where(is_sentinel, index, 0)), 1)
