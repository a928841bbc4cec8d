"""The ids are those of the original: kbert's ops against the plain-Python reference."""

import functools
import gzip
import json
import random
import tarfile

import pytest
import tensorflow as tf
from helpers.reference_tokenizer import SPECIAL_TOKENS, ReferenceTokenizer
from helpers.slow_but import slow_but
from helpers.unicode_texts import (
    NASTY,
    assigned_characters,
    characters_of_both,
    random_strings,
    transparent_vocabulary,
    vocabulary_of,
)

from kbert.text.tokenizer import BertTokenizer

SETTINGS = {
    "uncased": {"lowercase": True},
    "cased": {"lowercase": False},
    "lower with accents": {"lowercase": True, "strip_accents": False},
    "cased without accents": {"lowercase": False, "strip_accents": True},
    "CJK in words": {"lowercase": True, "split_on_cjk": False},
    "cased, CJK in words": {"lowercase": False, "split_on_cjk": False},
}
# Of their characters: test_random_strings and test_nasty_strings.
SINGLE, COMBINED = ("lower with accents", "CJK in words"), ("cased without accents", "cased, CJK in words")
VOCABULARIES = {  # of ../shared/data/vocab, with the setting it was made for
    "bert-base-uncased": {"lowercase": True},
    "bert-base-cased": {"lowercase": False},
    "bert-base-multilingual-cased": {"lowercase": False},
}
_SLOW = pytest.mark.slow  # that of the uncased vocabulary is not
some_vocabularies = pytest.mark.parametrize(
    "name",
    [
        "bert-base-uncased",
        pytest.param("bert-base-cased", marks=_SLOW),
        pytest.param("bert-base-multilingual-cased", marks=_SLOW),
    ],
)
every_setting = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)


@functools.lru_cache(maxsize=8)
def tokenizers(vocabulary, settings):
    return BertTokenizer(vocabulary, **dict(settings)), ReferenceTokenizer(vocabulary, **dict(settings))


def differences(strings, vocabulary, one_by_one=False, **settings):
    """The strings of which the layer makes other ids than the reference."""
    tokenizer, reference = tokenizers(tuple(vocabulary), tuple(settings.items()))
    found = []
    batch_size = 1 if one_by_one else 4096
    for first in range(0, len(strings), batch_size):
        batch = strings[first : first + batch_size]
        for string, ids in zip(batch, tokenizer(tf.constant(batch)).to_list(), strict=True):
            if ids != reference(string):
                found.append((string, ids, reference(string)))
    return found


def read_words(shared_data, name):
    return (shared_data / "vocab" / name / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]


@pytest.mark.parametrize(
    "settings, step",
    [
        pytest.param({"lowercase": True}, 1, id="uncased", marks=pytest.mark.slow),
        pytest.param({"lowercase": False}, 1, id="cased", marks=pytest.mark.slow),
        pytest.param({"lowercase": True}, 13, id="uncased, some"),
        pytest.param({"lowercase": False}, 29, id="cased, some"),
        *(pytest.param(SETTINGS[name], 11, id=f"{name}, some", marks=_SLOW) for name in (*SINGLE, *COMBINED)),
    ],
)
def test_every_assigned_character_in_context(settings, step):
    strings = [f"a{char}b {char}" for char in assigned_characters()[::step]]
    assert len(assigned_characters()) > 140_000
    assert differences(strings, transparent_vocabulary(), **settings) == []


@pytest.mark.parametrize("step", slow_but((31,), (31, 7)))
def test_every_character_between_sigmas(step):
    # The form of a sigma depends on the characters around it, and TensorFlow's ICU knows those of its own Unicode only.
    known = characters_of_both()
    assert len(known) > 140_000
    strings = [f"Σ{char}Σ{char} A{char}Σ" for char in known[::step]]
    assert differences(strings, transparent_vocabulary(), lowercase=True) == []


@pytest.mark.parametrize("count", slow_but((500,), (500, 1500)))
@every_setting
def test_random_strings(settings, count):
    strings = random_strings(count, seed=7)
    assert differences(strings, vocabulary_of(strings), **settings) == []


@every_setting
def test_nasty_strings(settings):
    assert differences(NASTY, vocabulary_of(NASTY), **settings) == []
    # What a batch holds decides which short cuts it takes.
    assert differences(NASTY, vocabulary_of(NASTY), one_by_one=True, **settings) == []


def test_unassigned_and_private_characters_are_kept():
    strings = [
        f"a{chr(code)}b" for code in [*range(0xE000, 0xE010), 0x378, 0xFDD0, 0xFFFE, 0x1FFFF, 0x10FFFD, 0x10FFFF]
    ]
    vocabulary = [*SPECIAL_TOKENS, "a", "##b", *(f"##{string[1]}" for string in strings)]
    ids = BertTokenizer(vocabulary)(tf.constant(strings)).to_list()
    assert ids == [[5, 7 + i, 6] for i in range(len(strings))]


@pytest.mark.parametrize("seed", range(12))
def test_random_vocabularies(seed):
    """Pieces that no vocabulary should have (empty, white space, NUL, inner punctuation) do not disturb the others."""
    generator = random.Random(seed)
    alphabet = "abcé!#[]中σς한\u0301 \t\x00\u200b'😀\u2028"
    words = set()
    for _ in range(generator.randrange(1, 60)):
        letters = alphabet[: generator.choice([3, 5, len(alphabet)])]
        length = generator.randrange(1, generator.choice([3, 5, 9]))
        word = generator.choice(["", "##"]) + "".join(generator.choice(letters) for _ in range(length))
        words.add(word.strip() or word)  # around a token it is refused
    vocabulary = [*SPECIAL_TOKENS, *(words - set(SPECIAL_TOKENS))]
    generator.shuffle(vocabulary)
    vocabulary[2:2] = [""] * (seed % 3)  # an empty line of the file
    settings = {
        "lowercase": seed % 2 == 0,
        "split_on_cjk": seed % 3 > 0,
        "strip_accents": (None, True, False)[seed % 3],
        "max_word_length": (200, 3, 1, 2)[seed % 4],
    }
    strings = ["".join(generator.choice(alphabet + "abcabc") for _ in range(20)) for _ in range(200)]
    assert differences(strings, vocabulary, **settings) == []


@pytest.mark.parametrize("limit", [1, 7, 100, 200, 1500])
@pytest.mark.parametrize("split_on_cjk", [True, False])
def test_word_length_is_counted_in_characters(limit, split_on_cjk):
    vocabulary = [*SPECIAL_TOKENS, *(p + c for c in "aé€😀" for p in ("", "##"))]
    words = [char * count for char in "aé€😀" for count in (limit - 1, limit, limit + 1, 4 * limit, 4 * limit + 1)]
    mixed = ["😀" * (limit - 1) + "aé", "a" + "😀" * (limit - 1), " ".join(words), "!".join(words)]
    settings = {"lowercase": False, "max_word_length": limit, "split_on_cjk": split_on_cjk}
    assert differences([*words, *mixed], vocabulary, **settings) == []
    tokenizer = BertTokenizer(vocabulary, **settings)
    assert tokenizer(tf.constant(["😀" * limit, "a" * (limit + 1)])).to_list()[1] == [tokenizer.unk_id]
    assert tokenizer.unk_id not in tokenizer(tf.constant(["😀" * limit])).to_list()[0]


def test_a_line_of_a_megabyte():
    vocabulary = [*SPECIAL_TOKENS, "a", "##a", "b", ".", "e"]
    unk, a, b, dot, e = 1, 5, 7, 8, 9
    expected = {"a a. b\x00 é ": [a, a, dot, b, e], ".": [dot], "a ": [a], "中": [unk]}
    for text, ids in expected.items():
        count = 1_100_000 // len(text.encode())
        assert BertTokenizer(vocabulary)([text * count]).to_list() == [ids * count]
    for word in ("a" * 1_100_000, "😀" * 300_000, "a\x00" * 600_000):
        assert BertTokenizer(vocabulary)([word, ""]).to_list() == [[unk], []]


def test_bytes_that_are_not_utf8_are_dropped():
    dirty = [
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xf0\x80\x80\x80",
        b"\xe4",
        b"\xf4\x90\x80\x80",
        b"\xc0\x80",
        b"\xe4\xb8",
        b"\xf0\x9f",
    ]
    generator = random.Random(3)
    strings = [b"a" + part + b"b " + part for part in dirty]
    strings += [
        bytes(generator.choice(b"ab .\xc3\xa9\xe4\xb8\xad\xff\x80\xed\xf0\x9f\x98\x80") for _ in range(20))
        for _ in range(2000)
    ]
    for settings in ({"lowercase": True}, {"lowercase": False}, {"split_on_cjk": False}):
        assert differences(strings, vocabulary_of(strings), **settings) == []


@pytest.mark.slow  # the uncased one: test_languages_and_naughty_strings; characters and random strings: above
@some_vocabularies
def test_published_vocabularies(shared_data, name):
    vocabulary = read_words(shared_data, name)
    strings = [f"a{char}b {char}" for char in assigned_characters()[::9]] + list(NASTY) + random_strings(1000, seed=5)
    with gzip.open(shared_data / "wikipedia" / "wiki-00000-of-00020.gz", "rt", encoding="utf-8") as file:
        strings += file.read(300_000).split("\n")
    assert differences(strings, vocabulary, **VOCABULARIES[name]) == []


def tokenizer_texts(shared_data):
    strings = json.loads((shared_data / "tokenizer" / "blns.json").read_text(encoding="utf-8"))
    strings += (shared_data / "tokenizer" / "UTF-8-demo.txt").read_bytes().split(b"\n")
    with tarfile.open(shared_data / "tokenizer" / "udhr.tar.gz") as archive:
        for member in archive.getmembers():
            strings += archive.extractfile(member).read().split(b"\n")
    return strings


@some_vocabularies
def test_languages_and_naughty_strings(shared_data, name):
    strings = tokenizer_texts(shared_data)
    assert len(strings) > 10_000
    assert differences(strings[::5], read_words(shared_data, name), **VOCABULARIES[name]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", VOCABULARIES)
def test_whole_corpora(shared_data, name):
    vocabulary = read_words(shared_data, name)
    tokenizer = BertTokenizer(vocabulary, **VOCABULARIES[name])
    reference = ReferenceTokenizer(vocabulary, **VOCABULARIES[name])
    count = 0
    for lines in (tokenizer_texts(shared_data), *corpora(shared_data)):
        for first in range(0, len(lines), 4096):
            batch = lines[first : first + 4096]
            for line, ids in zip(batch, tokenizer(tf.constant(batch)).to_list(), strict=True):
                assert ids == reference(line), line
                count += 1
    assert count > 1_000_000


def corpora(shared_data):
    """All of Wikipedia and the novels, as lists of lines."""
    for path in sorted((shared_data / "wikipedia").glob("*.gz")):
        with gzip.open(path) as file:
            yield file.read().split(b"\n")
    for path in sorted((shared_data / "novels").glob("*.tar.gz")):
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                if member.isfile():
                    yield archive.extractfile(member).read().split(b"\n")
