"""Packing: against a transcription of the original's loops."""

import numpy as np
import pytest
import tensorflow as tf

from kbert.text.packing import pack, pack_ranges, truncated_lengths

PAD, CLS, SEP = 0, 2, 3


def reference_truncate(a, b, budget):
    """run_classifier.py, _truncate_seq_pair."""
    a, b = list(a), list(b)
    while len(a) + len(b) > budget:
        (a if len(a) > len(b) else b).pop()
    return a, b


def reference_pack(segments, length):
    if len(segments) == 2:
        a, b = reference_truncate(*segments, length - 3)
        tokens, types = [CLS, *a, SEP, *b, SEP], [0] * (len(a) + 2) + [1] * (len(b) + 1)
    else:
        tokens = [CLS, *segments[0][: length - 2], SEP]
        types = [0] * len(tokens)
    padding = length - len(tokens)
    return tokens + [PAD] * padding, types + [0] * padding, [True] * len(tokens) + [False] * padding


def random_rows(rng, rows, longest):
    return [list(rng.integers(5, 90, rng.integers(0, longest + 1))) for _ in range(rows)]


def ragged(rows):
    return tf.RaggedTensor.from_row_lengths(
        tf.constant([token for row in rows for token in row], tf.int32), [len(row) for row in rows]
    )


def check(batch, expected):
    for i, key in enumerate(["token_ids", "segment_ids", "padding_mask"]):
        np.testing.assert_array_equal(batch[key], np.array([row[i] for row in expected]), err_msg=key)
    assert (batch["token_ids"].dtype, batch["segment_ids"].dtype, batch["padding_mask"].dtype) == (
        tf.int32,
        tf.int32,
        tf.bool,
    )


@pytest.mark.parametrize("length", [3, 4, 7, 13, 40])
def test_single_texts_equal_the_loop(length):
    rows = random_rows(np.random.default_rng(length), 37, 20)
    batch = pack([ragged(rows)], length, cls_id=CLS, sep_id=SEP, pad_id=PAD)
    check(batch, [reference_pack([row], length) for row in rows])


@pytest.mark.parametrize("length", [5, 6, 8, 13, 50])
def test_pairs_equal_the_loop(length):
    rng = np.random.default_rng(length)
    a, b = random_rows(rng, 101, 17), random_rows(rng, 101, 17)
    batch = pack([ragged(a), ragged(b)], length, cls_id=CLS, sep_id=SEP, pad_id=PAD)
    check(batch, [reference_pack(pair, length) for pair in zip(a, b, strict=True)])


def test_truncated_lengths_equal_the_loop_everywhere():
    pairs = [(a, b) for a in range(12) for b in range(12)]
    for budget in range(2, 15):
        expected = [[len(part) for part in reference_truncate(range(a), range(b), budget)] for a, b in pairs]
        got = truncated_lengths(*(tf.constant(side) for side in zip(*pairs, strict=True)), budget)
        for pair, lengths, wanted in zip(pairs, np.stack(got, axis=-1).tolist(), expected, strict=True):
            assert lengths == wanted, (*pair, budget)
    one = truncated_lengths(tf.constant([11]), tf.constant([3]), 9)
    assert [part.numpy().tolist() for part in one] == [[6], [3]]


def test_all_empty_texts():
    empty = ragged([[], []])
    check(pack([empty], 4, cls_id=CLS, sep_id=SEP, pad_id=PAD), [reference_pack([[]], 4)] * 2)
    check(pack([empty, empty], 5, cls_id=CLS, sep_id=SEP, pad_id=PAD), [reference_pack([[], []], 5)] * 2)


def test_no_rows():
    batch = pack([ragged([])], 4, cls_id=CLS, sep_id=SEP, pad_id=PAD)
    assert batch["token_ids"].shape == (0, 4)


def test_static_length_in_a_graph():
    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    def packed(rows):
        batch = pack([rows, rows], 9, cls_id=CLS, sep_id=SEP, pad_id=PAD)
        assert all(value.shape[1] == 9 for value in batch.values())
        return batch

    rows = random_rows(np.random.default_rng(0), 5, 9)
    check(packed(ragged(rows)), [reference_pack([row, row], 9) for row in rows])


@pytest.mark.parametrize("index_type", [tf.int32, tf.int64])
@pytest.mark.parametrize("value_type", [tf.uint16, tf.int32])
def test_ranges_of_a_flat_list(index_type, value_type):
    values = tf.range(10, 30, dtype=tf.int32)
    ranges = np.array([[0, 3, 10, 2], [5, 0, 19, 1], [17, 3, 0, 0]])
    columns = [tf.constant(column, index_type) for column in ranges.T]
    batch = pack_ranges(tf.cast(values, value_type), *columns, sequence_length=9, cls_id=CLS, sep_id=SEP, pad_id=PAD)
    flat = values.numpy()
    expected = [reference_pack([list(flat[a : a + n]), list(flat[b : b + m])], 9) for a, n, b, m in ranges]
    check(batch, expected)


def test_errors():
    rows = ragged([[7]])
    with pytest.raises(ValueError, match="one or two.*Received: 3"):
        pack([rows] * 3, 9, cls_id=CLS, sep_id=SEP, pad_id=PAD)
    with pytest.raises(ValueError, match="at least 3.*sequence_length=2"):
        pack([rows], 2, cls_id=CLS, sep_id=SEP, pad_id=PAD)
    with pytest.raises(ValueError, match="at least 5.*sequence_length=4"):
        pack([rows, rows], 4, cls_id=CLS, sep_id=SEP, pad_id=PAD)
