"""The original's text normalisation, as string ops over whole batches.

Shapes: B strings.
"""

import functools
import unicodedata
from collections.abc import Callable

import tensorflow as tf

from kbert.keras_compat import import_tensorflow_text

# RE2's classes: Cc, Cf = control and format characters, Mn = non-spacing marks, P = punctuation, Z = spaces.
_PLAIN = r"[\t\n\r -~]*"
_VALID = r"[\x00-\x{D7FF}\x{E000}-\x{10FFFF}]*"
_CONTROL = r"\x00-\x08\x0B\x0C\x0E-\x1F\x7F-\x{9F}\p{Cf}\x{FFFD}"
_SPACE = r"[\t\n\r\p{Z}]"
PUNCTUATION = r"!-/:-@\[-`{-~\p{P}"
# What the original treats as Chinese characters; Hangul and kana are not included.
CJK = (
    r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}"
    r"\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}"
)

# Upper-case letters of Unicode 14, which the ICU inside TensorFlow (Unicode 13) leaves as they are: first, last, step.
_NEWER_LETTERS = (
    (0x2C2F, 0x2C2F, 0x30),
    (0xA7C0, 0xA7C0, 1),
    (0xA7D0, 0xA7D0, 1),
    (0xA7D6, 0xA7D6, 1),
    (0xA7D8, 0xA7D8, 1),
    (0x10570, 0x1057A, 0x27),
    (0x1057C, 0x1058A, 0x27),
    (0x1058C, 0x10592, 0x27),
    (0x10594, 0x10595, 0x27),
)
_NEWER = "".join(rf"\x{{{first:X}}}-\x{{{last:X}}}" for first, last, _ in _NEWER_LETTERS)
_CLEAN = rf"[^{_CONTROL}{_NEWER}\x{{D800}}-\x{{DFFF}}]*"


class Normalizer:
    """Cleans, lower-cases and strips accents as the original's BasicTokenizer does.

    Takes strings [B] (bytes, read as UTF-8) and returns strings [B]. Their words are separated by
    white space, punctuation and CJK characters (with `split_words`: by spaces alone):

    1. bytes that are not UTF-8 are dropped, as ``bytes.decode("utf-8", "ignore")`` drops them;
    2. U+0000, U+FFFD and the categories Cc and Cf are deleted, except tab, line feed and carriage
       return;
    3. `lowercase`: as ``str.lower`` does;
    4. `strip_accents`: NFD, then category Mn is deleted;
    5. `split_words`: white space becomes a space, and punctuation is set off by spaces.

    No spaces are set around CJK characters, and other white space stays, because the WordPiece op
    splits there itself. Cleaning comes first: `tf.strings.lower` would end a string at U+0000.

    Args:
        lowercase, strip_accents, split_words: which steps are done.
        separated: characters (an RE2 class without its brackets) that are words of their own, for
            `split_words`.

    Source: google-research/bert, tokenization.py, BasicTokenizer.

    Example::

        Normalizer(lowercase=True, strip_accents=True)(tf.constant(["Naïve Café"]))  # [b"naive cafe"]
    """

    def __init__(self, lowercase: bool, strip_accents: bool, split_words: bool = False, separated: str = ""):
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.split_words = split_words
        self._separate = f"[{PUNCTUATION}{separated}]"
        self._settings = lowercase, strip_accents, split_words, separated

    def __eq__(self, other):
        return isinstance(other, Normalizer) and self._settings == other._settings

    def __hash__(self):
        return hash(self._settings)

    def __call__(self, strings: tf.Tensor) -> tf.Tensor:
        return self._run("_normalize", strings)

    def clean(self, strings: tf.Tensor) -> tf.Tensor:
        """Strings [B] to strings [B] without what the original deletes (steps 1 and 2 only)."""
        return self._run("_clean", strings)

    def _run(self, step, strings):
        result = _traced(self, step)(strings)
        result.set_shape(strings.shape)
        return result

    def _normalize(self, strings):
        plain = _all_match(strings, _PLAIN)
        strings = tf.cond(plain, lambda: self._plain(strings), lambda: self._any(strings))  # [B]
        if self.split_words:
            strings = tf.strings.regex_replace(strings, _SPACE, " ")
            strings = tf.strings.regex_replace(strings, self._separate, r" \0 ")
        return strings

    def _plain(self, strings):
        """The fast path for printable ASCII, which cleaning and NFD do not change."""
        return tf.strings.lower(strings) if self.lowercase else strings

    def _any(self, strings):
        strings = self._clean(strings)
        if self.lowercase:
            strings = self._lower(strings)
        if self.strip_accents:
            decomposed = import_tensorflow_text().normalize_utf8(order_marks(strings), "NFD")
            strings = tf.strings.regex_replace(decomposed, r"\p{Mn}+", "")
        return strings

    def _clean(self, strings):
        def delete():
            kept = tf.strings.regex_replace(valid_utf8(strings), f"[{_CONTROL}]+", "")
            if not self.lowercase:
                return kept
            return tf.cond(_all_match(kept, f"[^{_NEWER}]*"), lambda: kept, lambda: _lower_newer_letters(kept))

        # One scan tells that there is nothing to do: no control character, no newer letter, no byte that is not UTF-8.
        return tf.cond(_all_match(strings, _CLEAN), lambda: strings, delete)

    def _lower(self, strings):
        # ICU lower-cases by the rules of the environment's language: under LANG=tr_TR it turns I into a dotless i,
        # under lt_LT it adds dots to accented I and J. ASCII first, then what else depends on the language (only where
        # the dots are not stripped anyway), gives the same everywhere.
        strings = tf.strings.lower(strings)
        if not self.strip_accents:
            for upper in "İÌÍĨĮ":
                strings = tf.strings.regex_replace(strings, upper, upper.lower())
        return tf.strings.lower(strings, encoding="utf-8")


@functools.cache
def _traced(normalizer, step):
    """A method, traced once for all equal normalizers."""
    return traced_once(getattr(normalizer, step), tf.TensorSpec([None], tf.string))


def valid_utf8(strings: tf.Tensor) -> tf.Tensor:
    """Drops the bytes that are not UTF-8: strings [B] to strings [B]."""
    return tf.cond(
        _all_match(strings, _VALID),
        lambda: strings,
        lambda: tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="ignore"),
    )


def _all_match(strings, pattern):
    return tf.reduce_all(tf.strings.regex_full_match(strings, pattern))


def _lower_newer_letters(strings):
    first, last, step = (tf.constant(column) for column in zip(*_NEWER_LETTERS, strict=True))
    characters = tf.strings.unicode_decode(strings, "UTF-8")  # [B, None]
    row = tf.maximum(tf.searchsorted(first, characters.values, side="right") - 1, 0)
    newer = (characters.values >= first[0]) & (characters.values <= tf.gather(last, row))
    lower = tf.where(newer, characters.values + tf.gather(step, row), characters.values)
    return tf.strings.unicode_encode(characters.with_values(lower), "UTF-8")


# Runs of marks shorter than this are left to ICU, which sorts them by insertion.
_LONG_RUN = r"(?s).*\p{M}{32}.*"
# Characters without a class whose decomposition is a run of marks.
_COMPOSED = {"\u0f73": "\u0f71\u0f72", "\u0f75": "\u0f71\u0f74", "\u0f81": "\u0f71\u0f80"}


def order_marks(strings: tf.Tensor) -> tf.Tensor:
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
    return [(point, number) for point in range(0x20000) if (number := unicodedata.combining(chr(point)))]


def traced_once(function: Callable, *signature) -> Callable:
    """Traces a function of tensors, apart from the graph, device and strategy in which it is first called.

    A tokenizer is part of every dataset, `predict` and served signature, and tracing its string ops
    takes longer than tracing a layer of BERT. Keep the result (`functools.cache`): calling it adds
    one op to a graph. `signature` has a tf.TensorSpec or tf.RaggedTensorSpec for each argument,
    which are passed by position.
    """
    with tf.init_scope(), tf.device(None):
        return tf.function(function, input_signature=signature, autograph=False).get_concrete_function()
