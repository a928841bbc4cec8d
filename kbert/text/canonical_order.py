"""Sorts combining marks into Unicode's canonical order, in less than quadratic time.

Shapes: B strings, c characters of all of them.
"""

import functools
import unicodedata

import tensorflow as tf

# Runs of marks shorter than this are left to ICU, which sorts them by insertion.
_LONG_RUN = r"(?s).*\p{M}{32}.*"
# Characters without a class whose decomposition is a run of marks.
_COMPOSED = {"\u0f73": "\u0f71\u0f72", "\u0f75": "\u0f71\u0f74", "\u0f81": "\u0f71\u0f80"}


def order_marks(strings):
    """Sorts the marks after each character by their combining class if there are very many of them.

    NFD does this too, but ICU needs n² time for n marks that are out of order: minutes for half a
    megabyte of them. Marks in order cost it nothing extra. The normal form is not changed by this
    step.

    Source: the Unicode Standard, section 3.11, canonical ordering algorithm.
    """
    is_long = tf.reduce_any(tf.strings.regex_full_match(strings, _LONG_RUN))
    return tf.cond(is_long, lambda: _sorted(strings), lambda: strings)


def _sorted(strings):
    for character, marks in _COMPOSED.items():
        strings = tf.strings.regex_replace(strings, character, marks)
    characters = tf.strings.unicode_decode(strings, "UTF-8")  # [B, None]
    points, classes = (tf.constant(column) for column in zip(*_combining_classes(), strict=True))
    index = tf.minimum(tf.searchsorted(points, characters.values), tf.size(points) - 1)  # [c]
    is_mark = tf.gather(points, index) == characters.values
    combining_class = tf.where(is_mark, tf.gather(classes, index), 0)  # [c]
    run = tf.cumsum(tf.cast(~is_mark, tf.int64)) + characters.value_rowids()  # [c]; a character and its marks
    order = tf.argsort(run * 256 + tf.cast(combining_class, tf.int64), stable=True)
    return tf.strings.unicode_encode(characters.with_values(tf.gather(characters.values, order)), "UTF-8")


@functools.cache
def _combining_classes():
    """(code point, class) of every character that has one, ascending."""
    return [(point, found) for point in range(0x20000) if (found := unicodedata.combining(chr(point)))]
