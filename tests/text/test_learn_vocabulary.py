import importlib
import itertools
import random

import numpy as np
import pytest
import tensorflow as tf
from helpers.paths import ROOT
from helpers.reference_tokenizer import is_punctuation

from kbert.text.learn_vocabulary import count_words, learn_vocabulary, reserved_tokens
from kbert.text.normalizer import CJK, Normalizer
from kbert.text.tokenizer import BertTokenizer
from kbert.text.vocabulary import SPECIAL_TOKENS, check_vocabulary

module = importlib.import_module("kbert.text.learn_vocabulary")  # its name means the function


@pytest.fixture(scope="module")
def prose():
    """Some 80 KB of English and code: this project's own files."""
    paths = sorted((ROOT / "kbert").rglob("*.py"))[:25]
    return list(itertools.chain.from_iterable(path.read_text(encoding="utf-8").split("\n") for path in paths))


@pytest.fixture(scope="module")
def learned(prose):
    return learn_vocabulary(prose, 600)


def test_words_are_what_the_tokenizer_sees():
    texts = ["Don't stop, naïve CAFÉ!", "中文 a\x00b\u2028c \ufeff", b"d\xffe".decode("utf-8", "replace"), ""]
    counts = count_words(texts, Normalizer(True, True, split_words=True, separated=CJK))
    assert counts == {
        word: 1 for word in ["don", "'", "t", "stop", ",", "naive", "cafe", "!", "中", "文", "ab", "c", "de"]
    }
    cased = count_words(texts[:1] * 3, Normalizer(False, False, split_words=True, separated=CJK))
    assert cased["CAFÉ"] == 3 and cased["naïve"] == 3


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("split_on_cjk", [True, False])
def test_words_agree_with_the_tokenizer(prose, lowercase, split_on_cjk):
    texts = [*prose[:150], "中文a, déjà VU", "한국 中。"]
    normalizer = Normalizer(lowercase, lowercase, split_words=True, separated=CJK if split_on_cjk else "")
    words = sorted(count_words(texts, normalizer))
    whole = [*SPECIAL_TOKENS, *words]
    tokenizer = BertTokenizer(whole, lowercase=lowercase, split_on_cjk=split_on_cjk)
    ids = np.unique(tokenizer(texts).flat_values.numpy())
    assert ids.tolist() == list(range(len(SPECIAL_TOKENS), len(whole)))  # every word is used, none is unknown


def test_what_a_vocabulary_holds(prose, learned):
    assert len(learned) == 600
    check_vocabulary(learned)
    assert learned[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = BertTokenizer(learned)
    ids = tokenizer(prose).flat_values.numpy()
    assert np.mean(ids == tokenizer.unk_id) < 0.002
    assert len(np.unique(ids)) > 0.85 * len(learned)
    words = {token for token in learned if len(token) > 3 and token.isalpha()}
    assert {"return", "self", "strings"} <= words and len(words) > 150
    assert not [token for token in learned if token.startswith("##") and any(map(is_punctuation, token[2:]))]
    letters = len(tf.strings.unicode_split("".join(prose), "UTF-8"))
    assert len(ids) < 0.45 * letters  # more than two characters a piece, spaces included


def test_frequent_pieces_come_first(prose, learned):
    counts = np.bincount(BertTokenizer(learned)(prose).flat_values.numpy(), minlength=len(learned))
    longer = [i for i, token in enumerate(learned) if len(token.removeprefix("##")) > 1 and not token.startswith("[")]
    half = len(longer) // 2
    assert counts[longer[:half]].mean() > 3 * counts[longer[half:]].mean()


def test_the_same_text_gives_the_same_vocabulary_in_any_order(prose, learned, monkeypatch):
    shuffled = list(prose)
    random.Random(5).shuffle(shuffled)
    monkeypatch.setattr(module, "_BATCH_CHARACTERS", 3000)
    assert learn_vocabulary(iter(shuffled), 600) == learned


def test_reserved_tokens_are_where_bert_has_them(prose):
    reserved = reserved_tokens(30522)
    assert [reserved.index(token) for token in SPECIAL_TOKENS] == [0, 100, 101, 102, 103]
    assert reserved[1:100] == [f"[unused{i}]" for i in range(99)]
    learned = learn_vocabulary(prose, 2000)
    assert learned[:104] == reserved and len(learned) == 2000
    assert BertTokenizer(learned).mask_id == 103
    assert reserved_tokens(1999) == list(SPECIAL_TOKENS)


def test_reserved_tokens_are_those_of_the_released_vocabulary(shared_data):
    released = (shared_data / "vocab" / "bert-base-uncased" / "vocab.txt").read_text(encoding="utf-8").split("\n")
    assert released[:104] == reserved_tokens(30522)


def test_cased_and_uncased():
    texts = ["The cat saw The Été " * 9, "été The"]
    cased = learn_vocabulary(texts, 100, lowercase=False)
    assert "The" in cased and "the" not in cased and "é" in "".join(cased)
    uncased = learn_vocabulary(texts, 100)
    assert "the" in uncased and "ete" in uncased and uncased == [token for token in uncased if "é" not in token]
    accents = learn_vocabulary(texts, 100, strip_accents=False)
    assert "été" in accents


def test_a_text_that_has_fewer_pieces_than_asked_for():
    learned = learn_vocabulary(["a b ab ab"], 500)
    assert learned == [*SPECIAL_TOKENS, "a", "b", "##a", "##b", "ab"]


def test_rare_characters_are_left_out(prose):
    texts = [*prose, "rareЖ ℵ"]
    few = learn_vocabulary(texts, 400, max_characters=40)
    assert not {"ж", "##ж", "ℵ", "rareж"} & set(few)
    assert sum(len(token) == 1 for token in few) == 40
    chinese = ["".join(chr(0x4E00 + i) for i in range(300)) for _ in range(20)]
    learned = learn_vocabulary(chinese, 1000)
    assert sum("\u4e00" <= token[0] <= "\u9fff" for token in learned) == 300
    assert not [token for token in learned if token.startswith("##")]  # each is a word of its own
    assert learn_vocabulary(["ab " * 9], 100, max_characters=1)[5:] == ["a", "##a"]


def test_bad_input():
    for size in (99, 0, -5, 100.0, True, None):
        with pytest.raises(ValueError, match="`size` must be an integer of at least 100. Received"):
            learn_vocabulary(["text"], size)
    for texts in ([], ["", " \n"], ["\x00\u200b"]):
        with pytest.raises(ValueError, match="contains no words"):
            learn_vocabulary(texts, 100)
    with pytest.raises(ValueError, match="`lines` must be several texts.*Received: 'corpus.txt'"):
        learn_vocabulary("corpus.txt", 100)
    for characters in (0, "9", 1.5, True):
        with pytest.raises(
            ValueError, match=f"`max_characters` must be a positive integer or None. Received: {characters!r}"
        ):
            learn_vocabulary(["text"], 100, max_characters=characters)


def test_odd_text():
    texts = ["word " * 50, "x" * 5000, "\x00" * 10, "[MASK] [UNK]", "a" * 51 + " " + "b" * 50]
    learned = learn_vocabulary(texts, 100)
    assert "word" in learned and len(max(learned, key=len)) <= 52
    check_vocabulary(learned)


def test_progress_is_logged(prose, caplog):
    learn_vocabulary(prose[:200], 300)
    logged = [record.getMessage() for record in caplog.records if record.name == "kbert"]
    assert "different" in logged[0] and any("frequency threshold" in line for line in logged[1:])


@pytest.mark.parametrize("exponent", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("wanted", [0, 1, 50, 999, 5000])
def test_the_search_finds_the_highest_threshold_that_gives_enough(exponent, wanted):
    def size(threshold):
        return int(3000 * threshold**-exponent)

    tried = []

    def pieces(threshold):
        assert threshold >= 1 and threshold not in tried
        tried.append(threshold)
        return list(range(size(threshold)))

    found = len(module._search(pieces, wanted, start=7))
    assert len(tried) < 25
    if size(1) < wanted:
        assert found == size(1)
    else:
        best = min(size(threshold) for threshold in range(1, 10_000) if size(threshold) >= wanted) if wanted else 0
        assert found >= wanted and (found == best or found <= 1.02 * wanted)
