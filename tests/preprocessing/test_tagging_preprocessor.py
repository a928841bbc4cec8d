"""Words and windows for taggers: every word labelled once, at its first token, with most context, at its place."""

import random

import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_bert import tiny_tokenizer

from kbert.preprocessing.window_preprocessors import TaggingPreprocessor
from kbert.text.words import split_words

TEXTS = [
    "The film is Paris's good.",
    "",
    "unknown é 中 " * 40 + "films",
    "capitalsssssssssssssssssssssssssss lonely",  # a word of more tokens than a window
    "\u200b \x00",
    "a",
    "never! " * 9,
]


def as_numpy(batch):
    return {name: value.numpy() for name, value in batch.items()}


def original_best_window(spans, position):
    """run_squad.py, _check_is_max_context."""
    best, best_score = None, None
    for number, (start, length) in enumerate(spans):
        if start <= position < start + length:
            score = min(position - start, start + length - 1 - position) + 0.01 * length
            if best_score is None or score > best_score:
                best, best_score = number, score
    return best


@pytest.mark.parametrize("length, stride", [(11, None), (13, 3), (7, 50), (3, 1), (64, None)])
def test_every_word_is_read_at_its_first_token_with_most_context(length, stride):
    tokenizer = tiny_tokenizer()
    preprocessor = TaggingPreprocessor(tokenizer, length, stride)
    batch = as_numpy(preprocessor(TEXTS))
    words = split_words(TEXTS)[0]
    tokens = words.with_values(tokenizer(words.values)).to_list()
    assert batch["word_count"].tolist() == [len(row) for row in tokens]
    room, stride = length - 2, stride or (length - 2) // 2
    flat_ids = batch["token_ids"].reshape(-1)
    for row, of_text in enumerate(tokens):
        pieces = [ids or [tokenizer.unk_id] for ids in of_text]
        total = sum(map(len, pieces))
        spans, start = [], 0
        while not spans or start < total:
            spans.append((start, min(room, total - start)))
            if start + room >= total:
                break
            start += min(room, stride)
        mine = np.flatnonzero(batch["window_row"] == row)
        assert len(mine) == len(spans)
        flat = [id_ for word in pieces for id_ in word]
        for window, (start, size) in zip(mine, spans, strict=True):
            ids = [tokenizer.cls_id, *flat[start : start + size], tokenizer.sep_id]
            assert batch["token_ids"][window, : size + 2].tolist() == ids
            assert batch["padding_mask"][window].sum() == size + 2
        first = 0
        for number, word in enumerate(pieces):
            best = original_best_window(spans, first)
            position = batch["word_position"][row, number]
            assert position == mine[best] * length + 1 + first - spans[best][0]
            assert flat_ids[position] == word[0]
            first += len(word)
    assert (batch["word_position"] >= 0).sum() == sum(map(len, tokens))


def test_places_are_those_of_the_source():
    batch = as_numpy(TaggingPreprocessor(tiny_tokenizer(), 11)(TEXTS))
    for row, text in enumerate(TEXTS):
        for n in range(batch["word_count"][row]):
            start, end = batch["word_starts"][row, n], batch["word_ends"][row, n]
            assert text[start:end] == batch["words"][row, n].decode()
            window, place = divmod(batch["word_position"][row, n], 11)
            assert start <= batch["token_starts"][window, place] < batch["token_ends"][window, place] <= end
        assert (batch["word_starts"][row, batch["word_count"][row] :] == -1).all()
    inside = batch["window_token"] >= 0
    assert not batch["token_ends"][~inside].any()
    assert (batch["is_max_context"] & ~inside).sum() == 0
    assert sorted(batch["window_token"][batch["is_max_context"]]) == list(range(batch["window_token"].max() + 1))
    # of "Paris's": paris, then ' and s, in code points
    assert batch["token_starts"][0, 1:8].tolist() == [0, 4, 9, 12, 17, 18, 20]


def test_tokens_are_those_of_the_whole_text():
    draw = random.Random(5)
    pieces = ["The", "film", "s", "'s", "10:30", "am", ".", "-", " ", " ", "é", "中", "U.S.", ",", "a", "\u200d", "@"]
    texts = ["".join(draw.choices(pieces, k=20)) for _ in range(100)]
    tokenizer = tiny_tokenizer()
    batch = as_numpy(TaggingPreprocessor(tokenizer, 256)(texts))
    for ids, mask, expected in zip(batch["token_ids"], batch["padding_mask"], tokenizer(texts), strict=True):
        assert ids[mask][1:-1].tolist() == expected.numpy().tolist()


def test_words_that_are_split_already():
    preprocessor = TaggingPreprocessor(tiny_tokenizer(), 11)
    strings = as_numpy(preprocessor(TEXTS))
    words = as_numpy(preprocessor.windows(split_words(TEXTS)[0]))
    assert set(strings) - set(words) == {"text", "word_starts", "word_ends", "token_starts", "token_ends"}
    for name, value in words.items():
        np.testing.assert_array_equal(value, strings[name])
    odd = as_numpy(preprocessor.windows(tf.ragged.constant([["New York", "", "\u200b"], []])))
    assert odd["token_ids"][0, :6].tolist() == [2, 1, 1, 1, 1, 3]  # two tokens for the first; none is read as [UNK]
    assert odd["word_position"].tolist() == [[1, 3, 4], [-1, -1, -1]]


def test_no_texts_and_long_texts():
    preprocessor = TaggingPreprocessor(tiny_tokenizer(), 16)
    batch = as_numpy(preprocessor(np.array([], object)))
    assert batch["token_ids"].shape == (0, 16) and batch["words"].shape == (0, 0)
    batch = as_numpy(preprocessor(["good " * 5000]))
    assert batch["word_count"].tolist() == [5000] and len(batch["token_ids"]) == (5000 - 14 + 6) // 7 + 1
