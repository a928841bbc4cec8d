"""Masking as the original does it, in plain Python, and what `TokenMasking` made of some rows."""

import numpy as np
import tensorflow as tf

from kbert.stateless_random import fold_in

WORDS = [f"w{i}" for i in range(30)]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *(f"##p{i}" for i in range(20))]
PAD, UNK, CLS, SEP, MASK = range(5)
WORD, PIECE = 5, 5 + len(WORDS)  # the first of each


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


def random_pairs(rng, rows, length, fraction_of_pieces=0.4):
    """Rows [CLS] A [SEP] B [SEP] of all lengths, "##" pieces anywhere, also at the start of A and B."""
    result = []
    for _ in range(rows):
        n = int(rng.integers(2, length - 2))
        tokens = np.where(
            rng.random(n) < fraction_of_pieces, rng.integers(PIECE, len(VOCABULARY), n), rng.integers(1, PIECE, n)
        )
        tokens[np.isin(tokens, [CLS, SEP])] = UNK
        cut = int(rng.integers(1, n))
        result.append([CLS, *tokens[:cut], SEP, *tokens[cut:], SEP])
    return result


def reference_units(tokens, whole_word, entity_ids=None):
    """create_pretraining_data.py, create_masked_lm_predictions (:347-364), with the rule for entities added."""
    entity_ids = entity_ids or [0] * len(tokens)
    units, previous = [], 0
    for i, token in enumerate(tokens):
        if token in (CLS, SEP):
            continue
        joins = whole_word and token >= PIECE and units and not entity_ids[i] and not previous
        if entity_ids[i] and entity_ids[i] == previous and i - 1 == units[-1][-1]:
            joins = True
        if joins:
            units[-1].append(i)
        else:
            units.append([i])
        previous = entity_ids[i]
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


def outcome(masking, rows, length, seed=0, entity_ids=None):
    """Per row: chosen positions, the ids they had, the ids they have."""
    batch = make_batch(rows, length)
    keys = fold_in(seed, tf.range(len(rows)))
    if entity_ids is not None:
        entity_ids = tf.constant([list(s) + [0] * (length - len(s)) for s in entity_ids], tf.int32)
    inputs, ids, weights = [x for x in masking(batch, keys=keys, entity_ids=entity_ids)]
    assert ids.dtype == tf.int32 and weights.dtype == tf.float32 and inputs["mask_positions"].dtype == tf.int32
    corrupted, positions = inputs["token_ids"].numpy(), inputs["mask_positions"].numpy()
    original, ids, weights = batch["token_ids"].numpy(), ids.numpy(), weights.numpy()
    result = []
    for i in range(len(rows)):
        n = int(weights[i].sum())
        assert weights[i].tolist() == [1.0] * n + [0.0] * (masking.max_predictions - n)
        assert not ids[i, n:].any() and not positions[i, n:].any()
        p = positions[i, :n]
        assert (np.diff(p) > 0).all()
        np.testing.assert_array_equal(ids[i, :n], original[i, p])
        untouched = np.delete(np.arange(length), p)
        np.testing.assert_array_equal(corrupted[i, untouched], original[i, untouched])
        result.append((p.tolist(), ids[i, :n].tolist(), corrupted[i, p].tolist()))
    return result
