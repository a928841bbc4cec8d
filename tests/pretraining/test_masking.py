"""Masking: rates, places, words and entities, and new noise in every batch, on the JAX backend too."""

import functools
import random

import numpy as np
import pytest
import tensorflow as tf
from helpers.reference_masking import (
    CLS,
    MASK,
    PIECE,
    SEP,
    UNK,
    VOCABULARY,
    WORD,
    make_batch,
    outcome,
    random_pairs,
    reference_number,
    reference_units,
    reference_walk,
)
from helpers.wrong_values import wrong_values

from kbert import BertTokenizer
from kbert.pretraining.masking import TokenMasking
from kbert.stateless_random import fold_in


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(VOCABULARY)


# Rule 8: the number of masks, and the candidates.


@pytest.mark.parametrize("rate,predictions", [(0.15, 20), (0.15, 5), (0.5, 9), (1.0, 50)])
def test_rule_8_number_of_masks(tokenizer, rate, predictions):
    rows = [[CLS, *[WORD] * n, SEP] for n in range(1, 99)]
    masking = TokenMasking(tokenizer, max_predictions=predictions, mask_rate=rate)
    counts = [len(p) for p, _, _ in outcome(masking, rows, 101)]
    assert counts == [min(reference_number(row, predictions, rate), len(row) - 2) for row in rows]


def test_rule_8_candidates_are_all_but_cls_sep_and_padding(tokenizer):
    row = [CLS, WORD, UNK, MASK, SEP, WORD + 1, PIECE, SEP]
    seen = set()
    for p, _, _ in outcome(TokenMasking(tokenizer, max_predictions=1), [row] * 300, 11):
        seen.update(p)
    assert seen == {1, 2, 3, 5, 6}


def test_rule_8_candidates_are_equally_likely(tokenizer):
    n, rows = 13, 6000
    masking = TokenMasking(tokenizer, max_predictions=4, mask_rate=0.25)
    counts = np.zeros(n + 2)
    for p, _, _ in outcome(masking, [[CLS, *[WORD] * n, SEP]] * rows, n + 4):
        counts[p] += 1
    expected = rows * 4 / n
    assert counts[0] == counts[-1] == 0
    assert ((counts[1:-1] - expected) ** 2 / expected).sum() < 32.9  # chi-square, 12 degrees of freedom, 0.1 %


def test_rows_without_candidates_get_no_mask(tokenizer):
    assert outcome(TokenMasking(tokenizer), [[CLS, SEP], [], [CLS, WORD, SEP]], 5)[:2] == [([], [], [])] * 2


# Rule 9: what becomes of the chosen tokens.


def test_rule_9_shares(tokenizer):
    rows = [[CLS, *[WORD] * 98, SEP]] * 2000
    flat = [new for _, _, news in outcome(TokenMasking(tokenizer), rows, 100) for new in news]
    n = len(flat)
    assert n == 2000 * 15
    size = len(VOCABULARY)
    expected = np.full(size, 0.1 / size)
    expected[MASK] += 0.8
    expected[WORD] += 0.1
    counts = np.bincount(flat, minlength=size)
    # Every id occurs, [PAD], [CLS] and the pieces too: the random token comes from the whole vocabulary.
    assert (counts > 0).all()
    assert ((counts - n * expected) ** 2 / (n * expected)).sum() < 93.2  # chi-square, 54 degrees of freedom, 0.1 %


def test_rule_9_choices_within_a_row_are_independent(tokenizer):
    news = np.array([new for _, _, new in outcome(TokenMasking(tokenizer), [[CLS, *[WORD] * 98, SEP]] * 3000, 100)])
    is_mask = (news == MASK).astype(float)  # [3000, 15]
    correlation = np.corrcoef(is_mask.T) - np.eye(15)
    assert abs(correlation).max() < 0.08
    assert abs(is_mask.mean(axis=0) - 0.8).max() < 0.04


@pytest.mark.parametrize("fractions", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.2, 0.5, 0.3)])
def test_rule_9_shares_are_configurable(tokenizer, fractions):
    masking = TokenMasking(
        tokenizer, mask_token_rate=fractions[0], keep_rate=fractions[1], random_token_rate=fractions[2]
    )
    news = np.concatenate([new for _, _, new in outcome(masking, [[CLS, *[WORD] * 98, SEP]] * 1500, 100)])
    size = len(VOCABULARY)
    assert abs((news == MASK).mean() - fractions[0] - fractions[2] / size) < 0.012
    assert abs((news == WORD).mean() - fractions[1] - fractions[2] / size) < 0.012


def test_rule_9_padded_slots_do_not_undo_a_mask_at_position_0(tokenizer):
    masking = TokenMasking(
        tokenizer, mask_rate=1.0, mask_token_rate=1.0, keep_rate=0.0, random_token_rate=0.0, max_predictions=9
    )
    assert outcome(masking, [[WORD, WORD + 1]], 4) == [([0, 1], [WORD, WORD + 1], [MASK, MASK])]


# Randomness.


@pytest.mark.parametrize("whole_word", [False, True])
def test_a_row_does_not_depend_on_its_batch(tokenizer, whole_word):
    rows = random_pairs(np.random.default_rng(2), 12, 25)
    masking = TokenMasking(tokenizer, max_predictions=5, whole_word=whole_word)
    together = outcome(masking, rows, 25)
    assert together == outcome(masking, rows, 61)  # other padding
    assert together[:5] == outcome(masking, rows[:5], 25)  # other batch
    assert together != outcome(masking, rows, 25, seed=1)


def test_fewer_columns_than_predictions(tokenizer):
    masking = TokenMasking(tokenizer, max_predictions=20, mask_rate=1.0)
    assert [p for p, _, _ in outcome(masking, [[CLS, WORD, UNK, SEP]], 4)] == [[1, 2]]


def test_the_layer_draws_its_own_keys(tokenizer):
    batch = make_batch([[CLS, *[WORD] * 60, SEP]] * 4, 64)
    one, two = TokenMasking(tokenizer, seed=3), TokenMasking(tokenizer, seed=3)
    first, second = one(batch)[0]["mask_positions"], one(batch)[0]["mask_positions"]
    assert (first != second).numpy().any()
    assert len(np.unique(first.numpy(), axis=0)) == 4
    np.testing.assert_array_equal(first, two(batch)[0]["mask_positions"])


@pytest.mark.slow  # test_in_tf_data_and_under_xla
def test_own_keys_in_tf_data_where_keras_has_another_backend(tokenizer, monkeypatch):
    """The layer then counts its calls with a variable of TensorFlow's."""
    import keras

    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    in_graph, *eager = (TokenMasking(tokenizer, max_predictions=9, seed=seed) for seed in (1, 1, 2, None, None))
    assert in_graph.weights == [] and isinstance(in_graph._calls, tf.Variable)
    monkeypatch.undo()
    batch = make_batch([[CLS, *[WORD] * 60, SEP]] * 4, 64)
    dataset = tf.data.Dataset.from_tensors(batch).repeat(5).map(lambda batch: in_graph.call(batch)[0]["mask_positions"])
    first = [x.tolist() for x in dataset.as_numpy_iterator()]
    again, other, *unseeded = (
        [masking.call(batch)[0]["mask_positions"].numpy().tolist() for _ in range(5)] for masking in eager
    )
    assert len(set(map(str, first))) == 5
    assert first == again != other
    assert unseeded[0] != unseeded[1]


def test_own_keys_in_tf_data_and_in_a_model(tokenizer):
    import keras

    batch = make_batch([[CLS, *[WORD] * 60, SEP]] * 4, 64)
    dataset = tf.data.Dataset.from_tensors(batch).repeat(2).map(TokenMasking(tokenizer, seed=3))
    (first, _, _), (second, _, _) = dataset
    assert (first["mask_positions"] != second["mask_positions"]).numpy().any()
    inputs = {name: keras.Input([None], dtype=x.dtype.name, name=name) for name, x in batch.items()}
    model = keras.Model(inputs, TokenMasking(tokenizer, seed=3)(inputs)[0])
    first, second = model(batch, training=True), model(batch, training=True)
    assert (first["mask_positions"] != second["mask_positions"]).numpy().any()


# Where it works.


@pytest.mark.parametrize("whole_word", [pytest.param(False, marks=pytest.mark.slow), True])
def test_in_tf_data_and_under_xla(tokenizer, whole_word):
    rows = random_pairs(np.random.default_rng(4), 9, 30)
    batch, keys = make_batch(rows, 30), fold_in(0, tf.range(9))
    masking = TokenMasking(tokenizer, max_predictions=5, whole_word=whole_word)
    expected = masking(batch, keys=keys)
    dataset = tf.data.Dataset.from_tensors((batch, keys)).map(masking.call)
    assert dataset.element_spec[0]["mask_positions"].shape.as_list() == [9, 5]
    compiled = tf.function(masking.call, jit_compile=True)(batch, keys)
    for got in (next(iter(dataset)), compiled):
        tf.nest.map_structure(np.testing.assert_array_equal, got, expected)


def test_inside_a_functional_model(tokenizer, tmp_path):
    import keras

    inputs = {
        "token_ids": keras.Input([None], dtype="int32", name="token_ids"),
        "padding_mask": keras.Input([None], dtype="bool", name="padding_mask"),
    }
    keys = keras.Input([], dtype="int64", name="keys")
    masked, ids, weights = TokenMasking(tokenizer, max_predictions=4, whole_word=True)(inputs, keys=keys)
    model = keras.Model([inputs, keys], {"masked": masked, "ids": ids, "weights": weights})
    batch = make_batch(random_pairs(np.random.default_rng(4), 3, 30), 30)
    del batch["segment_ids"]
    expected = model([batch, fold_in(0, tf.range(3))])
    assert expected["masked"]["mask_positions"].shape == (3, 4)
    model.save(tmp_path / "masking.keras")
    loaded = keras.saving.load_model(tmp_path / "masking.keras")
    tf.nest.map_structure(np.testing.assert_array_equal, loaded([batch, fold_in(0, tf.range(3))]), expected)
    config = loaded.layers[-1].get_config()
    assert (config["max_predictions"], config["whole_word"], config["mask_rate"]) == (4, True, 0.15)


def test_wrong_rates(tokenizer):
    wrong_values(
        functools.partial(TokenMasking, tokenizer),
        ({"mask_rate": 0.0}, "mask_rate.*Received: 0.0"),
        ({"max_predictions": 0}, "predictions.*Received: 0"),
        ({"mask_token_rate": 1.2}, "mask_token_rate.*Received: 1.2"),
        ({"random_token_rate": 0.2}, "must be 1. Received"),
    )
    with pytest.raises(ValueError, match="padding_mask"):
        TokenMasking(tokenizer)({"token_ids": tf.zeros([1, 3], tf.int32)})


SCRIPT = """
import json
import tensorflow as tf
from helpers.tiny_corpus import make_tokenizer
from kbert.pretraining.masking import TokenMasking

tokens = tf.constant([[3] + [6 + i % 20 for i in range(60)] + [4]] * 4)
batch = {"token_ids": tokens, "padding_mask": tf.ones_like(tokens, tf.bool)}

def positions(seed):
    masking = TokenMasking(make_tokenizer(), max_predictions=9, seed=seed)
    batches = tf.data.Dataset.from_tensors(batch).repeat(5).map(lambda batch: masking(batch=batch)[0]["mask_positions"])
    return [x.numpy().tolist() for x in batches]

print(json.dumps({"first": positions(1), "again": positions(1), "other": positions(2),
                  "none": [positions(None) for _ in range(2)]}))
"""


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


@pytest.mark.parametrize("fraction_of_pieces", [0.0, 0.4, 0.8])
def test_rule_10_equals_the_sequential_walk(tokenizer, fraction_of_pieces):
    length = 43
    rows = random_pairs(np.random.default_rng(3), 500, length, fraction_of_pieces)
    masking = TokenMasking(tokenizer, max_predictions=6, mask_rate=0.3, whole_word=True)
    units = [reference_units(row, whole_word=True) for row in rows]
    got = [p for p, _, _ in outcome(masking, rows, length)]
    numbers = [reference_number(row, 6, 0.3) for row in rows]
    ordered = order_of_units(masking, rows, length, 0, units)
    assert got == [reference_walk(unit, number) for unit, number in zip(ordered, numbers, strict=True)]


@pytest.mark.slow  # test_rule_10_equals_the_sequential_walk
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
