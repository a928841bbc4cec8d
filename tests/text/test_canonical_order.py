"""Marks in canonical order: NFD stays what it was, and a long run of marks takes no longer than other text."""

import random
import time
import unicodedata

import tensorflow as tf

from kbert.text.normalizer import Normalizer, order_marks

# Classes 230, 220, 216 (spacing, not stripped), 224 (the same), 1, a starter among marks, and composed characters.
PIECES = ["\u0301", "\u0316", "\U0001d165", "\u302e", "\u0334", "\u034f", "\u0f73", "\u0344", "e"]
PIECES += ["\u00e9", "\u1e69", " "]


def test_the_normal_form_stays_the_same():
    source = random.Random(0)
    texts = ["".join(source.choices(PIECES, k=300)) for _ in range(20)]
    texts += ["a" + "".join(source.choices(PIECES[:8], k=200)) for _ in range(20)] + ["", "plain"]
    ordered = [text.decode() for text in order_marks(tf.constant(texts)).numpy()]
    assert any(text != other for text, other in zip(texts, ordered, strict=True))
    for text, other in zip(texts, ordered, strict=True):
        assert unicodedata.normalize("NFD", other) == unicodedata.normalize("NFD", text)


def test_a_row_keeps_its_marks():
    rows = ["e" + "\u0301" * 40, "\u0316" * 40, "\u0316\u0301" * 20]
    ordered = [text.decode() for text in order_marks(tf.constant(rows)).numpy()]
    assert ordered == [rows[0], rows[1], "\u0316" * 20 + "\u0301" * 20]


def test_half_a_megabyte_of_unordered_marks():
    normalizer = Normalizer(lowercase=True, strip_accents=True)
    for pair, kept in (("\u0301\u0316", ""), ("\u302e\U0001d165", "\U0001d165\u302e"), ("\u0f73", "")):
        count = 2**19 // len(pair.encode())
        text = "e" + pair * count
        start = time.process_time()
        normal = normalizer(tf.constant([text]))[0].numpy().decode()
        assert time.process_time() - start < 10, "ICU alone takes minutes"
        assert normal == "e" + "".join(mark * count for mark in kept)
