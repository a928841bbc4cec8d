"""Masking: every rule of the original, against a transcription of its loop in plain Python."""

import random

import numpy as np
import pytest
import tensorflow as tf

from kbert import BertTokenizer
from kbert.data.masking import TokenMasking
from kbert.data.random import fold

WORDS = [f"w{i}" for i in range(30)]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *(f"##p{i}" for i in range(20))]
PAD, UNK, CLS, SEP, MASK = range(5)
WORD, PIECE = 5, 5 + len(WORDS)  # the first of each


@pytest.fixture(scope="module")
def tokenizer():
    return BertTokenizer(VOCABULARY)


def make_batch(rows, length):
    ids = np.zeros([len(rows), length], np.int32)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    mask = np.arange(length) < np.array([[len(row)] for row in rows])
    segments = np.zeros_like(ids)
    return {
        name: tf.constant(x)
        for name, x in zip(["token_ids", "segment_ids", "padding_mask"], [ids, segments, mask], strict=True)
    }


def random_pairs(rng, rows, length, share_of_pieces=0.4):
    """Rows [CLS] A [SEP] B [SEP] of all lengths, "##" pieces anywhere, also at the start of A and B."""
    result = []
    for _ in range(rows):
        n = int(rng.integers(2, length - 2))
        tokens = np.where(
            rng.random(n) < share_of_pieces, rng.integers(PIECE, len(VOCABULARY), n), rng.integers(1, PIECE, n)
        )
        tokens[np.isin(tokens, [CLS, SEP])] = UNK
        cut = int(rng.integers(1, n))
        result.append([CLS, *tokens[:cut], SEP, *tokens[cut:], SEP])
    return result


def reference_units(tokens, whole_word, spans=None):
    """create_pretraining_data.py, create_masked_lm_predictions (:347-364), with the rule for spans added."""
    spans = spans or [0] * len(tokens)
    units, previous = [], 0
    for i, token in enumerate(tokens):
        if token in (CLS, SEP):
            continue
        joins = whole_word and token >= PIECE and units and not spans[i] and not previous
        if spans[i] and spans[i] == previous and i - 1 == units[-1][-1]:
            joins = True
        if joins:
            units[-1].append(i)
        else:
            units.append([i])
        previous = spans[i]
    return units


def reference_number(tokens, predictions, rate):
    return min(predictions, max(1, int(round(len(tokens) * rate))))


def reference_walk(units, number):
    """The same function, :374-389: `units` are in shuffled order."""
    chosen = []
    for unit in units:
        if len(chosen) >= number:
            break
        if len(chosen) + len(unit) > number:
            continue
        chosen.extend(unit)
    return sorted(chosen)


def outcome(masking, rows, length, seed=0, spans=None):
    """Per row: chosen positions, the ids they had, the ids they have."""
    batch = make_batch(rows, length)
    keys = fold(seed, tf.range(len(rows)))
    if spans is not None:
        spans = tf.constant([list(s) + [0] * (length - len(s)) for s in spans], tf.int32)
    inputs, ids, weights = [x for x in masking(batch, keys=keys, spans=spans)]
    assert ids.dtype == tf.int32 and weights.dtype == tf.float32 and inputs["mask_positions"].dtype == tf.int32
    corrupted, positions = inputs["token_ids"].numpy(), inputs["mask_positions"].numpy()
    original, ids, weights = batch["token_ids"].numpy(), ids.numpy(), weights.numpy()
    result = []
    for i in range(len(rows)):
        n = int(weights[i].sum())
        assert weights[i].tolist() == [1.0] * n + [0.0] * (masking.predictions - n)
        assert not ids[i, n:].any() and not positions[i, n:].any()
        p = positions[i, :n]
        assert (np.diff(p) > 0).all()
        np.testing.assert_array_equal(ids[i, :n], original[i, p])
        untouched = np.delete(np.arange(length), p)
        np.testing.assert_array_equal(corrupted[i, untouched], original[i, untouched])
        result.append((p.tolist(), ids[i, :n].tolist(), corrupted[i, p].tolist()))
    return result


# Rule 8: the number of masks, and the candidates.


@pytest.mark.parametrize("rate,predictions", [(0.15, 20), (0.15, 5), (0.5, 9), (1.0, 50)])
def test_rule_8_number_of_masks(tokenizer, rate, predictions):
    rows = [[CLS, *[WORD] * n, SEP] for n in range(1, 99)]
    masking = TokenMasking(tokenizer, predictions=predictions, mask_rate=rate)
    counts = [len(p) for p, _, _ in outcome(masking, rows, 101)]
    assert counts == [min(reference_number(row, predictions, rate), len(row) - 2) for row in rows]


def test_rule_8_halves_round_to_even(tokenizer):
    rows = [[CLS, *[WORD] * (n - 2), SEP] for n in (10, 30, 50, 70)]  # 1.5, 4.5, 7.5, 10.5
    counts = [len(p) for p, _, _ in outcome(TokenMasking(tokenizer), rows, 70)]
    assert counts == [2, 4, 8, 10]


def test_rule_8_candidates_are_all_but_cls_sep_and_padding(tokenizer):
    row = [CLS, WORD, UNK, MASK, SEP, WORD + 1, PIECE, SEP]
    seen = set()
    for p, _, _ in outcome(TokenMasking(tokenizer, predictions=1), [row] * 300, 11):
        seen.update(p)
    assert seen == {1, 2, 3, 5, 6}


def test_rule_8_candidates_are_equally_likely(tokenizer):
    n, rows = 13, 6000
    masking = TokenMasking(tokenizer, predictions=4, mask_rate=0.25)
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


@pytest.mark.parametrize("shares", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.2, 0.5, 0.3)])
def test_rule_9_shares_are_configurable(tokenizer, shares):
    masking = TokenMasking(tokenizer, mask_share=shares[0], keep_share=shares[1], random_share=shares[2])
    news = np.concatenate([new for _, _, new in outcome(masking, [[CLS, *[WORD] * 98, SEP]] * 1500, 100)])
    size = len(VOCABULARY)
    assert abs((news == MASK).mean() - shares[0] - shares[2] / size) < 0.012
    assert abs((news == WORD).mean() - shares[1] - shares[2] / size) < 0.012


def test_rule_9_padded_slots_do_not_undo_a_mask_at_position_0(tokenizer):
    masking = TokenMasking(tokenizer, mask_rate=1.0, mask_share=1.0, keep_share=0.0, random_share=0.0, predictions=9)
    assert outcome(masking, [[WORD, WORD + 1]], 4) == [([0, 1], [WORD, WORD + 1], [MASK, MASK])]


# Rule 10: whole words.


def order_of_units(masking, rows, length, seed, units):
    """The random order in which the layer meets the units: that of a run in which every unit is one token."""
    single = TokenMasking(masking.tokenizer, predictions=1)
    # The least noise of a row is the mask of a one-mask run; removing it and repeating gives the whole order.
    from kbert.data.masking import _SELECTION
    from kbert.data.random import uniform

    noise = uniform(fold(fold(seed, tf.range(len(rows))), _SELECTION), length).numpy()
    first = [p[0] for p, _, _ in outcome(single, rows, length, seed)]
    assert first == [min((i for unit in u for i in unit), key=lambda i, r=r: noise[r, i]) for r, u in enumerate(units)]
    return [sorted(u, key=lambda unit, r=r: noise[r, unit[0]]) for r, u in enumerate(units)]


@pytest.mark.parametrize("share_of_pieces", [0.0, 0.4, 0.8])
def test_rule_10_equals_the_sequential_walk(tokenizer, share_of_pieces):
    length = 43
    rows = random_pairs(np.random.default_rng(3), 500, length, share_of_pieces)
    masking = TokenMasking(tokenizer, predictions=6, mask_rate=0.3, whole_word=True)
    units = [reference_units(row, whole_word=True) for row in rows]
    got = [p for p, _, _ in outcome(masking, rows, length)]
    numbers = [reference_number(row, 6, 0.3) for row in rows]
    ordered = order_of_units(masking, rows, length, 0, units)
    assert got == [reference_walk(unit, number) for unit, number in zip(ordered, numbers, strict=True)]


def test_rule_10_distribution_of_the_original(tokenizer):
    """How often each position is masked, against the original with Python's own shuffle."""
    w, p = WORD, PIECE
    row = [CLS, w, p, p, w, w, p, SEP, p, w, w, p, p, p, w, SEP]
    masking = TokenMasking(tokenizer, predictions=20, mask_rate=0.3, whole_word=True)
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
    spans = []
    for row in rows:
        ids, i = [0] * len(row), 0
        while i < len(row):
            n = int(rng.integers(1, 5))
            ids[i : i + n] = [int(rng.choice([0, 0, 1, 2]))] * len(ids[i : i + n])
            i += n
        spans.append(ids)
    masking = TokenMasking(tokenizer, predictions=8, mask_rate=0.25, whole_word=whole_word)
    units = [reference_units(row, whole_word, span) for row, span in zip(rows, spans, strict=True)]
    got = [p for p, _, _ in outcome(masking, rows, length, spans=spans)]
    ordered = order_of_units(masking, rows, length, 0, units)
    assert got == [
        reference_walk(unit, reference_number(row, 8, 0.25)) for row, unit in zip(rows, ordered, strict=True)
    ]


@pytest.mark.parametrize("whole_word", [False, True])
def test_no_span_anywhere_changes_nothing(tokenizer, whole_word):
    rows = random_pairs(np.random.default_rng(1), 60, 30)
    masking = TokenMasking(tokenizer, whole_word=whole_word)
    zeros = [[0] * len(row) for row in rows]
    assert outcome(masking, rows, 30, spans=zeros) == outcome(masking, rows, 30)


# Randomness.


@pytest.mark.parametrize("whole_word", [False, True])
def test_a_row_does_not_depend_on_its_batch(tokenizer, whole_word):
    rows = random_pairs(np.random.default_rng(2), 12, 25)
    masking = TokenMasking(tokenizer, predictions=5, whole_word=whole_word)
    together = outcome(masking, rows, 25)
    assert together == outcome(masking, rows, 61)  # other padding
    assert together[:5] == outcome(masking, rows[:5], 25)  # other batch
    assert together != outcome(masking, rows, 25, seed=1)


def test_fewer_columns_than_predictions(tokenizer):
    masking = TokenMasking(tokenizer, predictions=20, mask_rate=1.0)
    assert [p for p, _, _ in outcome(masking, [[CLS, WORD, UNK, SEP]], 4)] == [[1, 2]]


def test_the_layer_draws_its_own_keys(tokenizer):
    batch = make_batch([[CLS, *[WORD] * 60, SEP]] * 4, 64)
    one, two = TokenMasking(tokenizer, seed=3), TokenMasking(tokenizer, seed=3)
    first, second = one(batch)[0]["mask_positions"], one(batch)[0]["mask_positions"]
    assert (first != second).numpy().any()
    assert len(np.unique(first.numpy(), axis=0)) == 4
    np.testing.assert_array_equal(first, two(batch)[0]["mask_positions"])


def test_own_keys_in_tf_data_and_in_a_model(tokenizer):
    import keras

    batch = make_batch([[CLS, *[WORD] * 60, SEP]] * 4, 64)
    dataset = tf.data.Dataset.from_tensors(batch).repeat(2).map(TokenMasking(tokenizer, seed=3))
    (first, _, _), (second, _, _) = dataset
    assert (first["mask_positions"] != second["mask_positions"]).numpy().any()
    inputs = {name: keras.Input([None], dtype=x.dtype.name, name=name) for name, x in batch.items()}
    model = keras.Model(inputs, TokenMasking(tokenizer, seed=3)(inputs)[0])
    first, second = model.predict(batch, verbose=0), model.predict(batch, verbose=0)
    assert (first["mask_positions"] != second["mask_positions"]).any()


# Where it works.


def test_in_tf_data_and_under_xla(tokenizer):
    rows = random_pairs(np.random.default_rng(4), 9, 30)
    batch, keys = make_batch(rows, 30), fold(0, tf.range(9))
    for whole_word in (False, True):
        masking = TokenMasking(tokenizer, predictions=5, whole_word=whole_word)
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
    masked, ids, weights = TokenMasking(tokenizer, predictions=4, whole_word=True)(inputs, keys=keys)
    model = keras.Model([inputs, keys], {"masked": masked, "ids": ids, "weights": weights})
    batch = make_batch(random_pairs(np.random.default_rng(4), 3, 30), 30)
    del batch["segment_ids"]
    expected = model([batch, fold(0, tf.range(3))])
    assert expected["masked"]["mask_positions"].shape == (3, 4)
    model.save(tmp_path / "masking.keras")
    loaded = keras.saving.load_model(tmp_path / "masking.keras")
    tf.nest.map_structure(np.testing.assert_array_equal, loaded([batch, fold(0, tf.range(3))]), expected)
    config = loaded.layers[-1].get_config()
    assert (config["predictions"], config["whole_word"], config["mask_rate"]) == (4, True, 0.15)


@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"mask_rate": 0.0}, "mask_rate.*Received: 0.0"),
        ({"predictions": 0}, "predictions.*Received: 0"),
        ({"mask_share": 1.2}, "mask_share.*Received: 1.2"),
        ({"random_share": 0.2}, "must be 1. Received"),
    ],
)
def test_wrong_rates(tokenizer, arguments, message):
    with pytest.raises(ValueError, match=message):
        TokenMasking(tokenizer, **arguments)


def test_wrong_batch(tokenizer):
    with pytest.raises(ValueError, match="padding_mask"):
        TokenMasking(tokenizer)({"token_ids": tf.zeros([1, 3], tf.int32)})
