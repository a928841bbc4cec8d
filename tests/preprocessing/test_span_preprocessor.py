"""Questions and contexts as windows: layout, offsets, windows against the original's loops, odd input."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_bert import tiny_tokenizer
from preprocessing.test_windows import original_is_max_context, original_windows

from kbert.preprocessing.window_preprocessors import SpanPreprocessor

WORDS = ["Paris", "is", "the", "capital", "of", "France", "\U0001f600", "中", "Good!", "films", "É", "unknown"]
RNG = np.random.default_rng(3)
CONTEXTS = ["", "Paris", "Paris is the capital\r\n of  France.", "中文中 \U0001f600 naïve É!", " \t\n"] + [
    " ".join(RNG.choice(WORDS, size)) for size in (9, 40, 90)
]
QUESTIONS = ["What is the capital of France?", "", "?", "a film " * 30, "Good?", "", "Paris a", "the"]


def flat_tokens(tokenizer, contexts):
    ids, starts, ends = tokenizer.tokenize_with_offsets(tf.constant(contexts))
    return ids.to_list(), starts.to_list(), ends.to_list()


@pytest.mark.parametrize("length, stride, query", [(17, 5, 6), (5, 1, 64), (40, 64, 3), (384, 128, 64)])
def test_windows_are_the_originals(length, stride, query):
    tokenizer = tiny_tokenizer()
    preprocessor = SpanPreprocessor(tokenizer, length, stride, query)
    batch = {name: value.numpy() for name, value in preprocessor({"question": QUESTIONS, "context": CONTEXTS}).items()}
    ids, starts, ends = flat_tokens(tokenizer, CONTEXTS)
    question_ids = [q[: min(query, length - 4)] for q in tokenizer(tf.constant(QUESTIONS)).to_list()]
    window, first = 0, 0
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    for row, q in enumerate(question_ids):
        spans = original_windows(len(ids[row]), length - len(q) - 3, stride)
        for number, (start, size) in enumerate(spans):
            packed = [cls, *q, sep, *ids[row][start : start + size], sep]
            pad = [0] * (length - len(packed))
            assert batch["token_ids"][window].tolist() == packed + pad
            assert batch["segment_ids"][window].tolist() == [0] * (len(q) + 2) + [1] * (size + 1) + pad
            assert batch["padding_mask"][window].tolist() == [True] * len(packed) + [False] * len(pad)
            assert batch["window_row"][window] == row
            content = slice(len(q) + 2, len(q) + 2 + size)
            is_content = np.zeros(length, bool)
            is_content[content] = True
            assert ((batch["window_token"][window] >= 0) == is_content).all()
            assert batch["window_token"][window][content].tolist() == list(range(first + start, first + start + size))
            assert batch["token_starts"][window][content].tolist() == starts[row][start : start + size]
            assert batch["token_ends"][window][content].tolist() == ends[row][start : start + size]
            truth = [original_is_max_context(spans, number, start + p) for p in range(size)]
            assert batch["is_max_context"][window][content].tolist() == truth
            for name in ("token_starts", "token_ends", "is_max_context"):
                assert not batch[name][window][~is_content].any()
            window += 1
        first += len(ids[row])
    assert window == len(batch["window_row"])
    assert [c.decode() for c in batch["context"]] == CONTEXTS


def test_no_rows_and_invalid_bytes():
    preprocessor = SpanPreprocessor(tiny_tokenizer(), 9, 2)
    empty = preprocessor({"question": tf.constant([], tf.string), "context": tf.constant([], tf.string)})
    assert empty["token_ids"].shape == (0, 9) and empty["window_row"].shape == (0,)
    batch = preprocessor({"question": [b"\xff"], "context": [b"Paris \xff\xfe is"]})
    assert batch["token_starts"].numpy()[0, 2:4].tolist() == [0, 7]  # the bytes dropped, two spaces stay
