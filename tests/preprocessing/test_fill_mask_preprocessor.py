"""Texts with [MASK]: positions, counts, and which part of a long text is kept."""

import numpy as np
import pytest
import tensorflow as tf

from kbert import BertTokenizer
from kbert.preprocessing.fill_mask_preprocessor import FillMaskPreprocessor

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
PAD, UNK, CLS, SEP, MASK, A = range(6)


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(VOCABULARY)


def rows(batch, *names):
    return [batch[name].numpy().tolist() for name in names]


def test_masks_are_found_and_counted(tokenizer):
    preprocessor = FillMaskPreprocessor(tokenizer, sequence_length=7, max_masks=2)
    batch = preprocessor(["a [MASK] b", "[MASK][MASK] c[MASK]", "a b", ""])
    ids, positions, count = rows(batch, "token_ids", "mask_positions", "count")
    assert ids == [
        [CLS, A, MASK, A + 1, SEP, PAD, PAD],
        [CLS, MASK, MASK, A + 2, MASK, SEP, PAD],
        [CLS, A, A + 1, SEP, PAD, PAD, PAD],
        [CLS, SEP, PAD, PAD, PAD, PAD, PAD],
    ]
    assert positions == [[2, 0], [1, 2], [0, 0], [0, 0]]  # the third [MASK] of the second text is beyond max_masks
    assert count == [1, 2, 0, 0]
    assert batch["padding_mask"].numpy().sum(axis=1).tolist() == [5, 6, 4, 2]
    assert not batch["segment_ids"].numpy().any()
    assert {batch[name].dtype for name in ("mask_positions", "count", "token_ids")} == {tf.int32}


def test_a_long_text_loses_its_end(tokenizer):
    preprocessor = FillMaskPreprocessor(tokenizer, sequence_length=6, max_masks=3)
    ids, positions, count = rows(preprocessor(["a [MASK] b c d [MASK] e"]), "token_ids", "mask_positions", "count")
    assert ids == [[CLS, A, MASK, A + 1, A + 2, SEP]]
    assert (positions, count) == ([[2, 0, 0]], [1])


@pytest.mark.parametrize("at", range(26))
def test_a_long_text_keeps_its_first_mask(tokenizer, at):
    letters = list("abcdefghijklmnopqrstuvwxyz")
    letters[at] = "[MASK]"
    room = 6
    batch = FillMaskPreprocessor(tokenizer, sequence_length=room + 2, max_masks=1)([" ".join(letters)])
    ((row,), ((position,),), (count,)) = rows(batch, "token_ids", "mask_positions", "count")
    assert count == 1 and row[position] == MASK
    start = 0 if at < room else min(at - room // 2, 26 - room)
    assert row == [CLS, *[MASK if i == at else A + i for i in range(start, start + room)], SEP]


def test_more_masks_wanted_than_positions(tokenizer):
    batch = FillMaskPreprocessor(tokenizer, sequence_length=3, max_masks=5)(["[MASK]"])
    assert rows(batch, "mask_positions", "count") == [[[1, 0, 0, 0, 0]], [1]]


def test_no_rows_and_only_empty_ones(tokenizer):
    preprocessor = FillMaskPreprocessor(tokenizer, sequence_length=5, max_masks=2)
    assert preprocessor([])["mask_positions"].shape == (0, 2)
    assert rows(preprocessor(["", ""]), "count") == [[0, 0]]


def test_the_tokenizers_other_settings_are_kept():
    cased = BertTokenizer([*VOCABULARY, "A"], lowercase=False, max_word_length=7)
    mine = FillMaskPreprocessor(cased).tokenizer
    assert mine.settings() == {**cased.settings(), "special_tokens_in_text": True}
    assert mine.vocabulary == cased.vocabulary
    assert FillMaskPreprocessor(mine).tokenizer is mine


@pytest.mark.parametrize("rate, masks", [(1, 16), (np.float32(0.5), 9), (0.5, 9)])
def test_rates_are_numbers_of_any_type(tokenizer, rate, masks):
    preprocessor = FillMaskPreprocessor(tokenizer, sequence_length=16, masking={"mask_rate": rate})
    assert preprocessor.masking == {"mask_rate": float(rate)} and type(preprocessor.masking["mask_rate"]) is float
    inputs, *_ = preprocessor.training_batches(["a b"], batch_size=1, next_sentence=False).element_spec
    assert inputs["mask_positions"].shape[1] == masks
