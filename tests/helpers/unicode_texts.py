"""Strings that take a tokenizer to the corners of Unicode, and a vocabulary that hides nothing."""

import functools
import random
import unicodedata

import tensorflow as tf

from helpers.reference_tokenizer import SPECIAL_TOKENS, is_cjk, is_deleted, is_punctuation

NASTY = (
    "",
    " ",
    "\t\n\r \u00a0\u3000\u2009",
    "\u2028\u2029a\u2028b\u2029",
    "a\x00b\x07c\x7fd\x85e\x9ff\x1cg\x1fh\x0bi\x0cj",
    "zero\u200bwidth soft\u00adhyphen join\u200der \ufeffbom \u2066iso\u2069 tag\U000e0041\ufffd",
    "ΑΣ ΑΣ. ΑΣΑ Σ ΟΔΥΣΣΕΥΣ ΌΣΟΣ’Σ Α\u0345Σ Α\u00b7Σ Σ\u0301 ΑΣ\u00adΣ",
    "İstanbul İİ ISPARTA ıI i\u0307 Ǆ ǅ ß ẞ ŉ ﬁ ﬀ",
    "Ñandú naïve Åse Ångström e\u0301\u0300\u0327 \u0301a \u0301 a\u200d\u0301b \u1e9b\u0323",
    "\u037e\u0387\u1fef\u1ffd\u1fee\u2000\u2001\u2126\u212a\u212b\u2329",
    "中文字 中a文 ㄱ한국어 ひらがな カタカナ 々〆 \uf900\ufa0e\U0002f800 \U00020000\U0002b820\U0002ceaf\U0002ceb0",
    "中\u0301a ！？，。「」 ﾊﾝｶｸ ％ ＄ ₤ € $5 a^b ~x` |y| <z> a+b=c",
    "हिन्दी क़ ড় தமிழ் ไทยไม่มีช่องว่าง မြန်မာ ភាសាខ្មែរ བོད་ཡིག العَرَبِيَّة עִבְרִית",
    "👍🏽 👩\u200d👩\u200d👧 🇩🇪 ❤\ufe0f 1\ufe0f\u20e3 \U0001f9ff",
    "x\U0010ffff \ufdd0 \ufffe \ue000y \U000f0000 \u0378",
    "[CLS] [MASK] [mask] ##ing # # [UNK]",
    "a" * 200 + " " + "b" * 201 + " " + "ab" * 400 + " " + "c" * 1000,
    "é" * 200 + " " + "é" * 201 + " " + "😀" * 200 + " " + "😀" * 201 + " " + "ไ" * 200 + " " + "ไ" * 201,
    "한" * 66 + " " + "한" * 67 + " " + "e\u0301" * 200 + " " + "e\u0301" * 201,
    "ba" * 100 + "." + "ba" * 100 + "\x00" + " " + "ba" * 100 + "\u200b" + "b",
    "\u1100\u1161\u11a8 각 \u0344 \u0958 \U0001d15e \U0001d1bb",
)


@functools.cache
def assigned_characters():
    """Every character that Python's Unicode assigns, private use and surrogates apart."""
    characters = map(chr, range(0x110000))
    return [char for char in characters if unicodedata.category(char) not in ("Cn", "Cs", "Co")]


@functools.cache
def characters_of_both():
    """Those of `assigned_characters` that TensorFlow's ICU knows, too: Python's Unicode may be newer."""
    characters = assigned_characters()
    scripts = tf.strings.unicode_script([ord(char) for char in characters]).numpy()
    return [char for char, script in zip(characters, scripts, strict=True) if script != 103]  # USCRIPT_UNKNOWN


@functools.cache
def transparent_vocabulary():
    """Every character that can be left after normalisation, as a word and as a piece: nothing is hidden by [UNK]."""
    return _vocabulary_of(assigned_characters())


def vocabulary_of(strings):
    """Of `transparent_vocabulary` what these strings, or bytes with UTF-8 in them, can need: it is built at once."""
    decoded = (string.decode("utf-8", "ignore") if isinstance(string, bytes) else string for string in strings)
    return _vocabulary_of(set(assigned_characters()) & {"ς"}.union(*decoded))  # at a word's end: no form of Σ alone


def _vocabulary_of(known):
    characters = set()
    for char in known:
        for form in (
            char,
            char.lower(),
            unicodedata.normalize("NFD", char),
            unicodedata.normalize("NFD", char.lower()),
        ):
            characters.update(form)
    words = sorted(char for char in characters if not is_deleted(char) and not char.isspace())
    pieces = [f"##{char}" for char in words if not is_punctuation(char) and not is_cjk(char)]
    return [*SPECIAL_TOKENS, *words, *pieces]


def random_strings(count, seed, alphabet=None, length=30):
    """Strings of `length` characters drawn from all that are known, and from the ones where trouble sits."""
    generator = random.Random(seed)
    everything = alphabet or characters_of_both()
    trouble = [char for text in NASTY[:16] for char in text] + list("ABCabc  .,")
    return [
        "".join(generator.choice(everything if generator.random() < 0.5 else trouble) for _ in range(length))
        for _ in range(count)
    ]
