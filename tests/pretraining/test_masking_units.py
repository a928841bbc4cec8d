"""Masking of whole words and of entities: the original's loop over the units, in the same order."""

import random

import numpy as np
import pytest
import tensorflow as tf
from helpers.reference_masking import (
    CLS,
    MASK,
    PIECE,
    SEP,
    VOCABULARY,
    WORD,
    outcome,
    random_pairs,
    reference_number,
    reference_units,
    reference_walk,
)

from kbert import BertTokenizer
from kbert.pretraining.masking import TokenMasking
from kbert.stateless_random import fold_in


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(VOCABULARY)


# Rule 10: whole words.


def order_of_units(masking, rows, length, seed, units):
    """The random order in which the layer meets the units: that of a run in which every unit is one token."""
    single = TokenMasking(masking.tokenizer, max_predictions=1)
    # The least noise of a row is the mask of a one-mask run; removing it and repeating gives the whole order.
    from kbert.pretraining.masking import _SELECTION
    from kbert.stateless_random import uniform

    noise = uniform(fold_in(fold_in(seed, tf.range(len(rows))), _SELECTION), length).numpy()
    first = [p[0] for p, _, _ in outcome(single, rows, length, seed)]
    assert first == [min((i for unit in u for i in unit), key=lambda i, r=r: noise[r, i]) for r, u in enumerate(units)]
    return [sorted(u, key=lambda unit, r=r: noise[r, unit[0]]) for r, u in enumerate(units)]


@pytest.mark.parametrize("share_of_pieces", [0.0, 0.4, 0.8])
def test_rule_10_equals_the_sequential_walk(tokenizer, share_of_pieces):
    length = 43
    rows = random_pairs(np.random.default_rng(3), 500, length, share_of_pieces)
    masking = TokenMasking(tokenizer, max_predictions=6, mask_rate=0.3, whole_word=True)
    units = [reference_units(row, whole_word=True) for row in rows]
    got = [p for p, _, _ in outcome(masking, rows, length)]
    numbers = [reference_number(row, 6, 0.3) for row in rows]
    ordered = order_of_units(masking, rows, length, 0, units)
    assert got == [reference_walk(unit, number) for unit, number in zip(ordered, numbers, strict=True)]


def test_rule_10_distribution_of_the_original(tokenizer):
    """How often each position is masked, against the original with Python's own shuffle."""
    w, p = WORD, PIECE
    row = [CLS, w, p, p, w, w, p, SEP, p, w, w, p, p, p, w, SEP]
    masking = TokenMasking(tokenizer, max_predictions=20, mask_rate=0.3, whole_word=True)
    n = 8000
    got = np.zeros(len(row))
    for positions, _, _ in outcome(masking, [row] * n, 20):
        got[positions] += 1
    rng, expected = random.Random(5), np.zeros(len(row))
    for _ in range(n):
        units = reference_units(row, whole_word=True)
        rng.shuffle(units)
        expected[reference_walk(units, reference_number(row, 20, 0.3))] += 1
    spread = np.sqrt(2 * n * 0.25)
    assert (abs(got - expected) < 4 * spread).all(), (got, expected)


def test_rule_10_a_word_too_large_for_the_budget_is_skipped(tokenizer):
    row = [CLS, WORD, PIECE, PIECE, WORD + 1, SEP]  # budget 2 of 6
    masking = TokenMasking(tokenizer, mask_rate=0.33, whole_word=True)
    assert {tuple(p) for p, _, _ in outcome(masking, [row] * 50, 6)} == {(4,)}


def test_rule_10_a_piece_behind_sep_belongs_to_the_word_before(tokenizer):
    row = [CLS, PIECE, WORD, SEP, PIECE, WORD, WORD, WORD, WORD, WORD, WORD, WORD, SEP]
    masking = TokenMasking(tokenizer, mask_rate=0.15, whole_word=True)  # 2 masks
    chosen = [set(p) for p, _, _ in outcome(masking, [row] * 300, 15)]
    assert any({2, 4} == c for c in chosen)
    assert not any(len({2, 4} & c) == 1 for c in chosen)


def test_rule_10_corruption_is_drawn_per_piece(tokenizer):
    row = [CLS, WORD, PIECE, SEP]
    masking = TokenMasking(tokenizer, mask_rate=0.5, whole_word=True)
    news = np.array([new for _, _, new in outcome(masking, [row] * 2000, 4)])
    both = (news == MASK).all(axis=1).mean()
    assert abs(both - (0.8 + 0.1 / len(VOCABULARY)) ** 2) < 0.04


# Spans.


@pytest.mark.parametrize("whole_word", [False, True])
def test_spans_equal_the_sequential_walk(tokenizer, whole_word):
    rng, length = np.random.default_rng(7), 37
    rows = random_pairs(rng, 400, length)
    entity_ids = []
    for row in rows:
        ids, i = [0] * len(row), 0
        while i < len(row):
            n = int(rng.integers(1, 5))
            ids[i : i + n] = [int(rng.choice([0, 0, 1, 2]))] * len(ids[i : i + n])
            i += n
        entity_ids.append(ids)
    masking = TokenMasking(tokenizer, max_predictions=8, mask_rate=0.25, whole_word=whole_word)
    units = [reference_units(row, whole_word, span) for row, span in zip(rows, entity_ids, strict=True)]
    got = [p for p, _, _ in outcome(masking, rows, length, entity_ids=entity_ids)]
    ordered = order_of_units(masking, rows, length, 0, units)
    assert got == [
        reference_walk(unit, reference_number(row, 8, 0.25)) for row, unit in zip(rows, ordered, strict=True)
    ]


@pytest.mark.parametrize("whole_word", [False, True])
def test_no_span_anywhere_changes_nothing(tokenizer, whole_word):
    rows = random_pairs(np.random.default_rng(1), 60, 30)
    masking = TokenMasking(tokenizer, whole_word=whole_word)
    zeros = [[0] * len(row) for row in rows]
    assert outcome(masking, rows, 30, entity_ids=zeros) == outcome(masking, rows, 30)
