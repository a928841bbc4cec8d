"""Literal special tokens in text, such as the [MASK] of a fill-mask prompt.

B: strings in the batch.
"""

import re

import tensorflow as tf

from kbert.text.vocabulary import SPECIAL_TOKENS

# Code points of the CJK Compatibility Ideographs block that Unicode leaves unassigned: normalisation leaves them alone,
# and the WordPiece op, taking the whole block as CJK, makes a word of each. Where a text holds one itself, which is
# unknown to any vocabulary, another such may stand for it.
_FIRST_MARK = 0xFAF0
_SUBSTITUTE = "\ufaff"


class SpecialTokenMarks:
    """Puts one character in the place of each literal special token, so that it passes through normalisation.

    `tokens` lists one mark for each special token, to be known to WordPiece; `pattern` matches them (the inside of an
    RE2 class).
    """

    tokens = [chr(_FIRST_MARK + i) for i in range(len(SPECIAL_TOKENS))]
    pattern = "".join(tokens)

    def mark(self, strings):
        """Strings [B] (UTF-8) to strings [B]."""
        strings = tf.strings.regex_replace(strings, f"[{self.pattern}]", _SUBSTITUTE)
        for mark, token in zip(self.tokens, SPECIAL_TOKENS, strict=True):
            strings = tf.strings.regex_replace(strings, re.escape(token), mark)
        return strings

    def source_lengths(self, code_points):
        """How many characters of the source each character of a marked string stands for: int32 to int32."""
        lengths = tf.constant([len(token) for token in SPECIAL_TOKENS])
        which = code_points - _FIRST_MARK
        is_mark = (which >= 0) & (which < len(SPECIAL_TOKENS))
        return tf.where(is_mark, tf.gather(lengths, tf.where(is_mark, which, 0)), 1)
