"""Words of texts and their places."""

import random

import numpy as np
import pytest
import tensorflow as tf

from kbert.text.words import split_words


@pytest.mark.parametrize(
    "text, words",
    [
        ("Germany's U.S. envoy, O'Brien.", "Germany 's U.S. envoy , O'Brien ."),
        ("(Anglo-French) AT&T: 1,000.50 at 10:30 p.m.", "( Anglo-French ) AT&T : 1,000.50 at 10:30 p.m."),
        ("they're 'sting' don't", "they 're ' sting ' don 't"),
        ("word--word end.", "word - - word end ."),
        ("中国在 Paris", "中 国 在 Paris"),
        ("1996-08-22 a_b a/b", "1996-08-22 a_b a / b"),
        ("\u200b \x00 \ufdd0", ""),
        ("na\u0308i\u200dve £5 x\u00a0y\u3000z", "na\u0308i\u200dve £5 x y z"),
        ("", ""),
        (" \t\n", ""),
        ("...", ". . ."),
    ],
)
def test_words(text, words):
    got = [word.decode() for word in split_words([text])[0].to_list()[0]]
    assert got == words.split()


def random_texts(seed):
    draw = random.Random(seed)
    common = "ab Z.'’-9,:U S\t中\u0308\u200d\ufdd0é\U0001f600\u3000"
    kinds = [
        lambda: draw.choice(common),
        lambda: chr(draw.choice([draw.randrange(0xD800), draw.randrange(0xE000, 0x110000)])),
    ]
    for _ in range(200):
        yield "".join(draw.choices(kinds, (9, 1))[0]() for _ in range(draw.randrange(25)))


def test_a_word_is_the_text_at_its_place():
    texts = list(random_texts(3))
    words, starts, ends = (column.to_list() for column in split_words(texts))
    for text, row, begin, end in zip(texts, words, starts, ends, strict=True):
        places = list(zip(begin, end, strict=True))
        assert [text[a:b].replace("\ufdd0", "\ufffd") for a, b in places] == [word.decode() for word in row]
        assert all(a < b for a, b in places)
        assert all(b <= a for b, a in zip(end, begin[1:], strict=False))
        inside = {n for a, b in places for n in range(a, b)}
        assert not any(text[n].isalnum() for n in set(range(len(text))) - inside)
    assert sum(map(len, words)) > 1000


def test_bytes_that_are_no_utf8_and_tracing():
    inside = tf.function(split_words, input_signature=[tf.TensorSpec([None], tf.string)])
    words, starts, ends = inside([b"a\xff b", b""])
    assert words.to_list() == [[b"a", b"b"], []]
    assert (starts.to_list(), ends.to_list()) == ([[0, 2], []], [[1, 3], []])
    assert starts.dtype == ends.dtype == np.int32
