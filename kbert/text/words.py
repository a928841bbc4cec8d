"""Texts → words with their offsets, in graph: the units that a tagger labels.

Shapes: B texts.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from kbert.text.normalizer import CJK, PUNCTUATION, valid_utf8

_SENTINEL = "\ufdd0"  # a code point that is not a character, inserted around the words
_SPACE = r"\t\n\r\p{Z}"
_DELETED = r"[\x00-\x08\x0B\x0C\x0E-\x1F\x7F-\x{9F}\p{Cf}\x{FFFD}\x{FDD0}]*"  # what the tokenizer deletes
_LETTER = rf"[^{_SPACE}{PUNCTUATION}{CJK}\x{{FDD0}}]"
_WORDS = "|".join(
    (
        r"\p{L}(?:\.\p{L})+\.",  # U.S., p.m.
        rf"\p{{N}}+(?:[.,:]\p{{N}}+)+{_LETTER}*",  # 1,000.5 and 10:30am
        rf"{_LETTER}+(?:[.\-\x{{2010}}\x{{2011}}&_@]{_LETTER}+|['\x{{2019}}]{_LETTER}{{3,}})*",  # Anglo-French, O'Brien
        rf"[^{_SPACE}\x{{FDD0}}]",  # a punctuation mark, a CJK character
    )
)
# An apostrophe and the word after it that belong together, each between its sentinels: Germany 's
_CLITIC = f"{_SENTINEL}(['\u2019]){_SENTINEL}{_SENTINEL}([sStTdDmM]|re|ve|ll|RE|VE|LL){_SENTINEL}"


def split_words(
    strings: Sequence[str] | np.ndarray | tf.Tensor,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Splits texts [B] into words, much like the words in CoNLL's files.

    The result is (words, starts, ends), ragged [B, None]: string, int32, int32. ``text[start:end]``
    is the word, in code points; bytes that are not UTF-8 are not counted.

    A word is a run of letters and digits. Inside it belong a full stop, hyphen, ampersand,
    underscore or @ ("Anglo-French", "AT&T", "1996-08-22"), an apostrophe before three letters or
    more ("O'Brien"), commas and colons inside numbers, and the last full stop of abbreviations like
    "U.S.". "'s" and its like are words. So is every other punctuation mark and every CJK character.
    White space and characters that BERT's tokenizer deletes are not words.
    """
    strings = valid_utf8(tf.convert_to_tensor(strings, tf.string))
    clean = tf.strings.regex_replace(strings, _SENTINEL, "\ufffd")  # as long; the tokenizer deletes it as well
    delimited = tf.strings.regex_replace(clean, f"({_WORDS})", rf"{_SENTINEL}\1{_SENTINEL}")
    delimited = tf.strings.regex_replace(delimited, _CLITIC, rf"{_SENTINEL}\1\2{_SENTINEL}")
    parts = tf.strings.split(delimited, _SENTINEL)  # [B, None]: gap, word, gap, word, …, gap
    lengths = parts.with_values(tf.strings.length(parts.values, unit="UTF8_CHAR"))
    ends = tf.cumsum(lengths.values)  # counted over the whole batch
    before = tf.gather(tf.concat([[0], ends], 0), parts.row_starts())  # [B]
    ends = ends - tf.gather(before, parts.value_rowids())
    number = tf.ragged.range(parts.row_lengths()).values
    is_word = (number % 2 == 1) & ~tf.strings.regex_full_match(parts.values, _DELETED)
    keep = parts.with_values(is_word)
    columns = (parts.values, ends - lengths.values, ends)
    return tuple(tf.ragged.boolean_mask(parts.with_values(column), keep) for column in columns)
