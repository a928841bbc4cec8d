"""The ids are those of Hugging Face's tokenizer, wherever that one agrees with the original.

Where it does not (docs/tokenizer.md lists the kinds), this holds the list to be complete: kbert, the original's plain
reference and Hugging Face's tokenizer can differ nowhere else.
"""

import gzip
import tarfile
import unicodedata

import pytest
import tensorflow as tf
from helpers.reference_tokenizer import SPECIAL_TOKENS
from helpers.unicode_texts import NASTY, assigned_characters, random_strings, transparent_vocabulary, vocabulary_of

from kbert.text.tokenizer import BertTokenizer

pytestmark = pytest.mark.parity
CASES = pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])


def of_tokenizers(vocabulary, lowercase, max_word_length=200):
    """strings → lists of ids, by the Rust library."""
    tokenizers = pytest.importorskip("tokenizers")
    ids = {token: i for i, token in enumerate(vocabulary)}
    tokenizer = tokenizers.BertWordPieceTokenizer(ids, lowercase=lowercase)
    tokenizer._tokenizer.model = tokenizers.models.WordPiece(
        ids, unk_token="[UNK]", max_input_chars_per_word=max_word_length
    )
    return lambda strings: [found.ids for found in tokenizer.encode_batch(strings, add_special_tokens=False)]


def of_kbert(vocabulary, lowercase):
    tokenizer = BertTokenizer(vocabulary, lowercase=lowercase)
    return lambda strings: tokenizer(tf.constant(strings)).to_list()


@pytest.fixture(scope="module")
def differing():
    """For uncased and cased: the characters that the two treat in different ways, alone or inside a word."""
    characters = assigned_characters()
    strings = [f"a{char}b {char}" for char in characters]
    found = {}
    for lowercase in (True, False):
        theirs = of_tokenizers(transparent_vocabulary(), lowercase)(strings)
        ours = of_kbert(transparent_vocabulary(), lowercase)(strings)
        found[lowercase] = {char for char, a, b in zip(characters, theirs, ours, strict=True) if a != b}
    return found


@CASES
def test_characters(differing, lowercase):
    """Ideographs that it forgets to set apart, and characters whose category its Unicode tables do not have yet."""
    ideographs = {char for char in differing[lowercase] if unicodedata.category(char) == "Lo"}
    assert ideographs == {chr(code) for code in range(0x2B820, 0x2B920)}
    newer = differing[lowercase] - ideographs
    categories = {unicodedata.category(char) for char in newer}
    assert categories <= {"Cf", "Mc", "Mn", "Pd", "Pe", "Po", "Ps", "So"}
    assert 50 < len(newer) < 700
    # Nothing that a text is likely to hold: the tables are of Unicode 8, of 2015.
    assert min(newer) >= "\u061d" and len([char for char in newer if char < "\u3000"]) < 130


@CASES
def test_private_characters_are_deleted_there(lowercase):
    vocabulary = [*SPECIAL_TOKENS, "a", "##b", "##\ue000"]
    assert of_kbert(vocabulary, lowercase)(["a\ue000b"]) == [[5, 7, 6]]
    assert of_tokenizers(vocabulary, lowercase)(["a\ue000b"]) == [[5, 6]]


def test_a_sigma_at_the_end_of_a_word_is_not_a_final_one_there():
    vocabulary = [*SPECIAL_TOKENS, "α", "##ς", "##σ"]
    assert of_kbert(vocabulary, True)(["ΑΣ", "ας"]) == [[5, 6], [5, 6]]
    assert of_tokenizers(vocabulary, True)(["ΑΣ", "ας"]) == [[5, 7], [5, 6]]


def test_words_of_more_than_100_characters_are_unknown_there():
    vocabulary = [*SPECIAL_TOKENS, "a", "##a"]
    words = ["a" * 100, "a" * 101, "a" * 200, "a" * 201]
    theirs = of_tokenizers(vocabulary, False, max_word_length=100)(words)
    assert theirs == BertTokenizer(vocabulary, lowercase=False, max_word_length=100)(words).to_list()
    assert [len(ids) for ids in theirs] == [100, 1, 1, 1]
    assert [len(ids) for ids in of_kbert(vocabulary, False)(words)] == [100, 101, 200, 1]


def test_literal_special_tokens_are_kept_there():
    vocabulary = [*SPECIAL_TOKENS, "a", "[", "]", "mask"]
    texts = ["a[MASK]a [mask] [SEP]", "[MASK"]
    kept = BertTokenizer(vocabulary, special_tokens_in_text=True)
    assert kept(texts).to_list() == of_tokenizers(vocabulary, True)(texts)
    assert of_kbert(vocabulary, True)(texts)[0][:5] == [5, 6, 8, 7, 5]


def comparable(strings, differing, lowercase):
    """The strings without anything of the kinds above."""
    kept = []
    for string in strings:
        private = any(unicodedata.category(char) in ("Co", "Cn") for char in string)
        special = any(token in string for token in SPECIAL_TOKENS)
        sigma = lowercase and "Σ" in string
        if not (private or special or sigma or differing & set(string)):
            kept.append(string)
    return kept


@CASES
def test_random_and_nasty_strings(differing, lowercase):
    strings = comparable([*random_strings(4000, seed=11, length=20), *NASTY], differing[lowercase], lowercase)
    assert len(strings) > 2000
    vocabulary = vocabulary_of(strings)
    assert of_tokenizers(vocabulary, lowercase)(strings) == of_kbert(vocabulary, lowercase)(strings)


@pytest.mark.slow  # strings: test_random_and_nasty_strings; a published vocabulary: test_offsets
@pytest.mark.parametrize(
    ("name", "lowercase"),
    [("bert-base-uncased", True), ("bert-base-cased", False), ("bert-base-multilingual-cased", False)],
)
def test_published_vocabularies(shared_data, differing, name, lowercase):
    with tarfile.open(shared_data / "tokenizer" / "udhr.tar.gz") as archive:
        texts = [archive.extractfile(member).read() for member in archive.getmembers()]
    with gzip.open(shared_data / "wikipedia" / "wiki-00007-of-00020.gz") as file:
        texts.append(file.read(600_000))
    with tarfile.open(shared_data / "novels" / "novels-0.tar.gz") as archive:
        member = next(member for member in archive.getmembers() if member.isfile())
        texts.append(archive.extractfile(member).read())
    strings = [line for text in texts for line in text.decode("utf-8", "ignore").split("\n")][::2]
    kept = comparable(strings, differing[lowercase], lowercase)
    assert len(kept) > 0.97 * len(strings) > 10_000
    vocabulary = (shared_data / "vocab" / name / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    theirs, ours = of_tokenizers(vocabulary, lowercase)(kept), of_kbert(vocabulary, lowercase)(kept)
    assert [text for text, a, b in zip(kept, theirs, ours, strict=True) if a != b] == []


def test_offsets(shared_data):
    """Spans are the same where a word was found; Hugging Face's leave the marks behind a character out."""
    tokenizers = pytest.importorskip("tokenizers")
    path = str(shared_data / "vocab" / "bert-base-uncased" / "vocab.txt")
    with gzip.open(shared_data / "wikipedia" / "wiki-00003-of-00020.gz", "rt", encoding="utf-8") as file:
        lines = [line for line in file.read(300_000).split("\n") if line]
    theirs = tokenizers.BertWordPieceTokenizer(path, lowercase=True).encode_batch(lines, add_special_tokens=False)
    ids, starts, ends = BertTokenizer(path).tokenize_with_offsets(tf.constant(lines))
    count = 0
    for line, a, i, s, e in zip(lines, theirs, ids.to_list(), starts.to_list(), ends.to_list(), strict=True):
        if a.ids == i and not any(unicodedata.category(char) == "Mn" for char in line):
            assert a.offsets == list(zip(s, e, strict=True)), line
            count += 1
    assert count > 0.9 * len(lines)


def test_transformers_agree(shared_data):
    transformers = pytest.importorskip("transformers")
    path = shared_data / "vocab" / "bert-base-uncased" / "vocab.txt"
    theirs = transformers.BertTokenizer(vocab=str(path), do_lower_case=True)
    texts = ["Hello, naïve world! 中文", "unaffable [MASK] x", "\u00a0tab\tnew\n", "don't $5 a^b"]
    expected = theirs(texts, add_special_tokens=False)["input_ids"]
    assert expected[0][:2] == [7592, 1010]  # it did read the vocabulary
    assert BertTokenizer(path, special_tokens_in_text=True)(texts).to_list() == expected
