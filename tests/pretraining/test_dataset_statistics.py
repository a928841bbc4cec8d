"""The report counts what is in the batches; the baseline is that of token frequencies."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.pretraining_batches import dataset_of, records_of
from helpers.tiny_corpus import VOCABULARY, make_documents

from kbert.corpus.held_out import is_held_out
from kbert.pretraining.dataset_statistics import dataset_statistics, format_report, token_counts, unigram_baseline

PAD, UNK, CLS, SEP, MASK = (VOCABULARY.index(token) for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))


def two_batches(next_sentence=True):
    """[MASK], kept, [MASK], random in the first batch; one [MASK] in the second, of less padding."""
    token_ids = [
        [[CLS, MASK, 8, SEP, 9, SEP, PAD], [CLS, MASK, UNK, SEP, 30, 9, SEP]],
        [[CLS, 7, SEP, 8, SEP, PAD, PAD], [CLS, MASK, 8, SEP, 9, 9, SEP]],
    ]
    labels = [[[7, 8], [8, 11]], [[0, 0], [7, 0]]]
    positions = [[[1, 2], [1, 4]], [[0, 0], [1, 0]]]
    weights = [[[1, 1], [1, 1]], [[0, 0], [1, 0]]]
    inputs = {
        "token_ids": np.array(token_ids, "int32"),
        "padding_mask": np.array(token_ids) != PAD,
        "mask_positions": np.array(positions, "int32"),
    }
    labels = {"mlm_logits": np.array(labels, "int32")}
    if next_sentence:
        labels["nsp_logits"] = np.array([[1, 0], [1, 1]], "int32")
    return tf.data.Dataset.from_tensor_slices((inputs, labels, {"mlm_logits": np.array(weights, "float32")}))


def test_report_counts(tokenizer):
    report = dataset_statistics(two_batches(), tokenizer)
    expected = {
        "sequences": 4,
        "random_next_fraction": 3 / 4,
        "masks_per_sequence": 5 / 4,
        "fewest_masks": 0,
        "most_masks": 2,
        "mask_token_rate": 3 / 5,
        "keep_rate": 1 / 5,
        "random_token_rate": 1 / 5,
        "tokens_per_sequence": 25 / 4,
        "padding_fraction": 3 / 28,
        "unknown_fraction": 1 / 22,
    }
    assert {name: pytest.approx(report[name]) for name in expected} == expected
    assert report["nominal_tokens_per_second"] > report["tokens_per_second"] > 0
    text = format_report(report)
    assert "75.0%" in text and "60.0% [MASK], 20.0% kept, 20.0% random" in text and "padding 10.7%" in text


def test_report_of_one_batch_without_next_sentence(tokenizer):
    report = dataset_statistics(two_batches(next_sentence=False).take(1), tokenizer)
    assert report["random_next_fraction"] is None and report["tokens_per_second"] is None
    assert "second" not in format_report(report) and "next" not in format_report(report)


def test_report_of_nothing(tokenizer, tmp_path):
    records = records_of(make_documents(3), tmp_path / "records", held_out=0.0)
    dataset = dataset_of(records, tokenizer, batch_size=5000, epochs=1)
    with pytest.raises(ValueError, match="no batch"):
        dataset_statistics(dataset, tokenizer)


def test_token_counts(tokenizer, tmp_path):
    """Of the training documents."""
    training = [s for d in make_documents(60) if not is_held_out(d, 0.2) for s in d]
    expected = np.bincount(tokenizer(tf.constant(training)).flat_values, minlength=len(VOCABULARY))
    records_of(make_documents(60), tmp_path / "r", shard_tokens=200)
    np.testing.assert_array_equal(token_counts(tmp_path / "r", tokenizer), expected)
    some = token_counts(tmp_path / "r", tokenizer, max_tokens=100).sum()
    assert 100 <= some < expected.sum()


def test_unigram_baseline():
    counts = np.zeros(len(VOCABULARY), np.int64)
    counts[7], counts[8] = 30, 9
    total = counts.sum() + len(counts)
    baseline = unigram_baseline(counts, two_batches())
    seven, eight, unseen = (-np.log(n / total) for n in (31, 10, 1))
    assert baseline["cross_entropy"] == pytest.approx((2 * seven + 2 * eight + unseen) / 5)
    assert baseline["accuracy"] == pytest.approx(2 / 5) and baseline["masks"] == 5
    p = (counts + 1) / total
    assert baseline["entropy"] == pytest.approx(-(p * np.log(p)).sum())
    with pytest.raises(ValueError, match="no masked token"):
        unigram_baseline(counts, two_batches().take(0))


def test_the_baseline_is_near_the_entropy_on_a_real_pipeline(tokenizer, tmp_path):
    records = records_of(make_documents(200), tmp_path / "records")
    evaluation = dataset_of(records, tokenizer, batch_size=8, evaluation=True)
    baseline = unigram_baseline(token_counts(records, tokenizer), evaluation)
    assert abs(baseline["cross_entropy"] - baseline["entropy"]) < 0.3 and baseline["masks"] > 500
