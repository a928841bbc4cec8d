"""Other objectives than the paper's: next tokens, spans, pairs and masks that come again."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.pretraining_batches import B, S, batches, dataset_of

from kbert.pretraining.dataset_statistics import dataset_statistics, format_report
from kbert.pretraining.entities import aligned_spans
from kbert.pretraining.masking import NextTokens
from kbert.pretraining.real_shares import real_shares

LTR = {"left_to_right": True, "next_sentence": False, "max_predictions": S - 2}


@pytest.fixture(scope="module")
def next_tokens(records, tokenizer):
    return dataset_of(records, tokenizer, **LTR)


def predictions(inputs, labels, weights):
    """{(text, place): predicted token} of a batch, with the texts as bytes; packed or not."""
    found = {}
    for row in range(len(inputs["token_ids"])):
        parts = inputs["part_ids"][row] if "part_ids" in inputs else inputs["padding_mask"][row].astype(int)
        used = weights["mlm_logits"][row] > 0
        for place, token in zip(inputs["mask_positions"][row][used], labels["mlm_logits"][row][used], strict=True):
            [own] = np.nonzero(parts == parts[place])
            found[inputs["token_ids"][row, own].tobytes(), int(place - own[0])] = int(token)
    return found


def test_every_token_is_predicted_from_the_place_before_it(next_tokens, tokenizer):
    for inputs, labels, weights in batches(next_tokens, 8):
        for row in range(B):
            tokens = inputs["token_ids"][row][inputs["padding_mask"][row]]
            assert tokens[0] == tokenizer.cls_id and tokens[-1] == tokenizer.sep_id
            assert not (tokens == tokenizer.mask_id).any()
            used = weights["mlm_logits"][row] > 0
            assert inputs["mask_positions"][row][used].tolist() == list(range(len(tokens) - 2))
            assert labels["mlm_logits"][row][used].tolist() == tokens[1:-1].tolist()
            assert not labels["mlm_logits"][row][~used].any()


def test_pairs_skip_the_separator(records, tokenizer):
    for inputs, labels, weights in batches(dataset_of(records, tokenizer, **LTR | {"next_sentence": True}), 4):
        assert set(labels) == {"mlm_logits", "nsp_logits"}
        real = inputs["padding_mask"].sum(1)
        assert weights["mlm_logits"].sum(1).tolist() == (real - 3).tolist()  # [CLS] and both [SEP]
        assert not np.isin(labels["mlm_logits"][weights["mlm_logits"] > 0], [tokenizer.cls_id, tokenizer.sep_id]).any()


def test_packed_rows_predict_the_same(records, tokenizer):
    options = LTR | {"epochs": 1, "batch_size": 1}
    plain, packed = {}, {}
    for found, more in ((plain, {}), (packed, {"packed": True})):
        for batch in dataset_of(records, tokenizer, **options | more).as_numpy_iterator():
            found |= predictions(*batch)
    assert plain == packed and len(plain) > 200


def test_the_report_of_next_tokens(next_tokens, records, tokenizer):
    statistics = dataset_statistics(next_tokens, tokenizer, 5, left_to_right=True)
    assert statistics["mask_token_rate"] is statistics["keep_rate"] is None
    assert "of next tokens" in format_report(statistics) and "[MASK]" not in format_report(statistics)
    shares = real_shares(
        records, tokenizer, sequence_length=S, max_predictions=S - 2, left_to_right=True, next_sentence=False
    )
    assert 0 < shares["plain"] <= shares["packed"] <= 1


def test_next_tokens_refuses_no_predictions(tokenizer):
    with pytest.raises(ValueError, match="NextTokens: `max_predictions` must be a positive integer. Received: 0"):
        NextTokens(tokenizer, 0)


@pytest.mark.parametrize("packed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_pairs_and_masks_come_again_after_dupe_factor_epochs(records, tokenizer, packed):
    """With 2 the third epoch has the rows of the first, in another order; a factor of 1 has no other rows at all."""

    def epochs(dupe_factor):
        """The rows of three epochs; the first and the third have equally many."""
        options = {"dupe_factor": dupe_factor, "packed": packed, "batch_size": 1}
        one, three = (batches(dataset_of(records, tokenizer, epochs=count, **options)) for count in (1, 3))
        epochs = three[: len(one)], three[len(one) : -len(one)], three[-len(one) :]
        return [[predictions(*batch) for batch in epoch] for epoch in epochs]

    def content(epoch):
        return {key: token for row in epoch for key, token in row.items()}

    first, second, third = epochs(2)
    assert content(first) == content(third) != content(second) and first != third
    first, second, third = epochs(1)
    assert content(first) == content(second) == content(third)


def test_a_skip_counts_the_rows_of_repeated_epochs(records, tokenizer):
    options = {"dupe_factor": 1, "epochs": 3}
    whole = batches(dataset_of(records, tokenizer, **options), None)
    late = batches(dataset_of(records, tokenizer, start_step=len(whole) - 2, **options), None)
    assert len(late) == 2
    for (one, _, _), (other, _, _) in zip(whole[-2:], late, strict=True):
        np.testing.assert_array_equal(one["token_ids"], other["token_ids"])


def test_spans_of_a_length():
    sentences = tf.ragged.constant([[7, 8, 9, 9, 9], [5], [], [1, 2]])
    assert aligned_spans(2)(sentences).to_list() == [[1, 1, 2, 2, 3], [4], [], [5, 5]]
    assert aligned_spans(1)(sentences).flat_values.numpy().tolist() == list(range(1, 9))
    with pytest.raises(ValueError, match="`length` must be an integer of at least 1. Received: 0"):
        aligned_spans(0)


def test_spans_are_masked_as_a_whole(records, tokenizer):
    """Without pairs and truncation at the front, spans begin at the first token of a sentence."""
    options = {"entity_ids": aligned_spans(2), "mask_rate": 0.3, "max_predictions": 8}
    lengths = []
    for inputs, _, weights in batches(dataset_of(records, tokenizer, **options), 10):
        for row in range(B):
            places = inputs["mask_positions"][row][weights["mlm_logits"][row] > 0]
            runs = np.split(places, np.nonzero(np.diff(places) > 1)[0] + 1)
            lengths += [len(run) for run in runs]
    assert np.mean([length % 2 == 0 for length in lengths]) > 0.6  # others are cut by the ends of sentences
    single = []
    for inputs, _, weights in batches(dataset_of(records, tokenizer, mask_rate=0.3, max_predictions=8), 10):
        for row in range(B):
            places = inputs["mask_positions"][row][weights["mlm_logits"][row] > 0]
            single += [len(run) for run in np.split(places, np.nonzero(np.diff(places) > 1)[0] + 1)]
    assert np.mean(lengths) > 1.3 * np.mean(single)
