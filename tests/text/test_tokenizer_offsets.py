"""tokenize_with_offsets: spans in code points of the string as it was given."""

import random

import pytest
import tensorflow as tf
from helpers.reference_tokenizer import SPECIAL_TOKENS, ReferenceTokenizer
from helpers.slow_but import slow_but
from helpers.unicode_texts import NASTY, assigned_characters, random_strings, vocabulary_of

from kbert.text.tokenizer import BertTokenizer

SETTINGS = {
    "uncased": {"lowercase": True},
    "cased": {"lowercase": False},
    "lower with accents": {"lowercase": True, "strip_accents": False},
    "CJK in words": {"split_on_cjk": False},
    "special tokens": {"special_tokens_in_text": True},
    "special tokens, CJK in words": {"special_tokens_in_text": True, "split_on_cjk": False},
    "tokens of one's own": {"special_tokens_in_text": ["##a", "中", "[MASK]", "b"]},
    "short words": {"max_word_length": 2},
}
COMBINED = "special tokens, CJK in words"  # each by itself is a setting, too
every_setting = pytest.mark.parametrize(
    "settings",
    [
        pytest.param(settings, id=name, marks=pytest.mark.slow if name == COMBINED else ())
        for name, settings in SETTINGS.items()
    ],
)
VOCABULARY = [
    *SPECIAL_TOKENS,
    *"abcdefghijklmnopqrstuvwxyz",
    *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"),
    "中",
    ".",
]


def spans(tokenizer, strings):
    columns = (column.to_list() for column in tokenizer.tokenize_with_offsets(tf.constant(strings)))
    return [list(zip(*row, strict=True)) for row in zip(*columns, strict=True)]


def check_against_reference(strings, settings):
    vocabulary = vocabulary_of(strings)
    tokenizer, reference = BertTokenizer(vocabulary, **settings), ReferenceTokenizer(vocabulary, **settings)
    pieces = spans(tokenizer, strings)
    for string, found in zip(strings, pieces, strict=True):
        assert found == reference.pieces(string), ascii(string)
    assert tokenizer(tf.constant(strings)).to_list() == [[piece[0] for piece in row] for row in pieces]


@every_setting
@pytest.mark.parametrize("step", slow_but((291,), (291, 23)))  # the ids: test_tokenizer_exact.py
def test_equal_the_reference(settings, step):
    trouble = [*SPECIAL_TOKENS, "[mask]", "[", "]", "MASK", "\ufaf0", "\ufaf4", "\ufaff", *"aéßΣİ\u0301\u0308\u0327"]
    trouble += ["\u200d", "\x00", " ", "\n", "\u2028", "!", "中", "한", "क़", "ि", "👍🏽", "ñ", "\u0303"]
    strings = [
        *NASTY,
        *random_strings(min(600, 58_200 // step), seed=2, length=17),
        *random_strings(min(1200, 116_400 // step), seed=3, alphabet=trouble, length=12),
    ]
    strings += [f"a{char}b {char}" for char in assigned_characters()[::step]]
    check_against_reference(strings, settings)


def test_bytes_that_are_not_utf8_do_not_count():
    generator = random.Random(4)
    strings = [
        bytes(generator.choice(b"ab .\xc3\xa9\xcc\x81\xe4\xb8\xad\xff\x80\xed") for _ in range(15)) for _ in range(900)
    ]
    check_against_reference(strings, {"lowercase": True})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ab a", [(0, 1), (1, 2), (3, 4)]),
        ("a\x00\u200bb", [(0, 1), (3, 4)]),  # deleted characters between pieces belong to none
        ("cafe\u0301 e", [(0, 1), (1, 2), (2, 3), (3, 5), (6, 7)]),  # a mark belongs to its character
        ("e\u200d\u0301x", [(0, 3), (3, 4)]),  # ... across a character that is deleted
        ("é\u0301\u0302", [(0, 3)]),
        ("\u0301a", [(1, 2)]),  # a mark with nothing before it
        ("İİ", [(0, 1), (1, 2)]),
        ("中中a", [(0, 1), (1, 2), (2, 3)]),
        ("👍🏽 a", [(0, 2), (3, 4)]),  # unknown: the whole word
        ("\t a\n.", [(2, 3), (4, 5)]),
        ("", []),
    ],
)
def test_by_hand(text, expected):
    found = spans(BertTokenizer(VOCABULARY), [text, "a"])[0]
    assert [(start, end) for _, start, end in found] == expected


def test_spans_cover_the_text_they_stand_for():
    """A span, cut out and tokenized by itself, gives its own piece; only what is dropped lies between the spans."""
    words = "Ångström naïve, İstanbul. cafe\u0301s x\u200dy \x00z déjà-vu ÉCOLE o\u0308l 中x Ñ".split(" ")
    generator = random.Random(6)
    strings = [" ".join(generator.choice(words) for _ in range(9)) for _ in range(50)]
    tokenizer = BertTokenizer(VOCABULARY)
    cut, pieces = [], []
    for string, row in zip(strings, spans(tokenizer, strings), strict=True):
        position = 0
        for id, start, end in row:
            assert position <= start < end
            assert set(string[position:start]) <= set(" \u200d\x00")
            position = end
            cut.append(string[start:end])
            pieces.append(tokenizer.id_to_token(id).removeprefix("##"))
        assert set(string[position:]) <= set(" \u200d\x00")
    assert len(set(pieces)) > 15
    again = [text.decode() for text in tokenizer.detokenize(tokenizer(cut)).numpy()]
    assert [text for text, piece in zip(again, pieces, strict=True) if piece != "[UNK]"] == [
        piece for piece in pieces if piece != "[UNK]"
    ]


def test_shapes_and_types():
    tokenizer = BertTokenizer(VOCABULARY)
    ids, starts, ends = tokenizer.tokenize_with_offsets(tf.constant(["ab c", "", "."]))
    for part in (ids, starts, ends):
        assert part.dtype == tf.int32 and part.shape.as_list() == [3, None]
        assert part.row_lengths().numpy().tolist() == [3, 0, 1]
    none = tokenizer.tokenize_with_offsets(tf.constant([], tf.string))
    assert [part.shape[0] for part in none] == [0, 0, 0]
    one = tokenizer.tokenize_with_offsets("ab c")
    assert [part.numpy().tolist() for part in one[1:]] == [[0, 1, 3], [1, 2, 4]]
    words = tokenizer.tokenize_with_offsets(tf.ragged.constant([["ab", "c"], [], ["é"]]))
    assert words[2].to_list() == [[[1, 2], [1]], [], [[1]]]


def test_in_a_dataset():
    dataset = tf.data.Dataset.from_tensor_slices(["ab", "c\u0301 ."]).batch(2)
    ids, starts, ends = next(iter(dataset.map(BertTokenizer(VOCABULARY).tokenize_with_offsets)))
    assert ends.to_list() == [[1, 2], [2, 4]] and starts.to_list() == [[0, 1], [0, 3]]
