"""Rows that are filled: the same pairs and rows as without, and further short pairs in the space that was left."""

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from helpers.pretraining_batches import HELD_OUT, B, assert_equal, batches, columns, dataset_of, examples, first_rows
from helpers.tiny_corpus import make_documents

from kbert.config import default_num_parts
from kbert.corpus.records import Records
from kbert.corpus.write_records import write_records
from kbert.pretraining.masking import NextTokens, TokenMasking
from kbert.pretraining.pairs import max_pair_tokens, sentence_pairs
from kbert.pretraining.row_sampler import RowSampler
from kbert.pretraining.rows import (
    LEAST_TOKENS,
    add_further_parts,
    arrange_in_rows,
    packed_rows,
    part_lengths,
    plain_rows,
    row_of_pairs,
)

S, P = 64, 12
PACKED = {"packed": True, "sequence_length": S, "max_predictions": P}
FILLED = PACKED | {"fill_rows": True}


@pytest.fixture(scope="module")
def records(tokenizer, tmp_path_factory):
    """Documents of one or two sentences, whose pairs are longer than half a row."""
    documents = make_documents(80, sizes=(1, 2), words=(5, 8))
    directory = tmp_path_factory.mktemp("short") / "records"
    write_records(documents, tokenizer, directory, shard_tokens=1000, held_out=HELD_OUT)
    return directory


@pytest.fixture(scope="module")
def filled(records, tokenizer):
    """The rows of an epoch."""
    return batches(dataset_of(records, tokenizer, epochs=1, batch_size=1, **FILLED))


def numpy_of(batch):
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), batch)


@pytest.mark.parametrize("kind", ["pairs", pytest.param("singles", marks=pytest.mark.slow), "next tokens"])
def test_what_is_added_is_masked_as_in_rows_of_its_own(records, tokenizer, kind):
    next_sentence, predictions = kind == "pairs", S if kind == "next tokens" else P
    masking = NextTokens(tokenizer, predictions) if kind == "next tokens" else TokenMasking(tokenizer, predictions)
    pool, parts = Records(records).pool(0), default_num_parts(S)
    before = sentence_pairs(pool, 3, 0, max_pair_tokens(S, next_sentence), next_sentence=next_sentence)
    rows = row_of_pairs(masking, before, S, parts, next_sentence)
    table, filled = add_further_parts(masking, pool, before, rows, 7, S, parts, next_sentence)

    lengths, number = part_lengths(table, next_sentence).numpy(), len(before.keys)
    assert len(lengths) > number and len(table.keys) == len(set(table.keys.numpy()))
    for one, other in zip(before, table, strict=True):
        np.testing.assert_array_equal(one, other[:number])
    np.testing.assert_array_equal(rows, filled[:number])
    rows, added = rows.numpy(), filled[number:].numpy()
    assert len(set(added)) == len(added) and set(added) <= set(rows)
    masks = masking.most_masks(lengths).numpy()
    assert np.bincount(filled, lengths).max() <= S and np.bincount(filled, masks).max() <= predictions
    assert np.bincount(filled).max() <= parts
    space = S - np.bincount(rows, lengths[:number]).astype("int32")
    assert (space[added] >= LEAST_TOKENS).all() and (lengths[number:] <= space[added]).all()
    free_masks = predictions - np.bincount(rows, masks[:number])
    is_open = (space >= LEAST_TOKENS) & (np.bincount(rows) < parts) & (free_masks >= masking.most_masks(space).numpy())
    assert set(np.flatnonzero(is_open)) <= set(added)

    options = {"sequence_length": S, "next_sentence": next_sentence}
    values = {"token_ids": pool.token_ids}
    plain = numpy_of(plain_rows(masking, values, table, **options))
    packed = numpy_of(packed_rows(masking, values, *arrange_in_rows(table, filled, 1), num_parts=parts, **options))
    assert sorted(examples([packed])) == sorted(examples([plain]))


def test_an_epoch_has_its_pairs_and_more(records, tokenizer, filled):
    epoch = {"epochs": 1, "batch_size": 1}
    packed = batches(dataset_of(records, tokenizer, **epoch | PACKED))
    assert len(packed) == len(filled)
    before, after = Counter(examples(packed)), Counter(examples(filled))
    assert before <= after and len(packed) / 10 < (after - before).total()
    real, more = (np.mean([inputs["padding_mask"].mean() for inputs, _, _ in some]) for some in (packed, filled))
    assert more > real
    for inputs, labels, weights in filled:  # the loss counts every part, and no mask is lost
        parts = np.bincount(inputs["part_ids"][0])[1:]
        assert weights["nsp_logits"].sum() == len(parts)
        assert weights["mlm_logits"].sum() == np.clip(np.round(parts * 0.15), 1, None).sum()
        assert not labels["mlm_logits"][weights["mlm_logits"] == 0].any()
    labels = [label for *_, label in (after - before).elements()]
    assert 0.3 < np.mean(labels) < 1


@pytest.mark.slow  # test_dataset.py::test_starting_at_step_n_gives…
@pytest.mark.parametrize("step", [1, 9])
def test_starting_at_step_n(records, tokenizer, filled, step):
    """Over ends of shards; the rows do not depend on the batch size either."""
    found = batches(dataset_of(records, tokenizer, start_step=step, epochs=1, **FILLED))
    assert len(found) == len(filled) // B - step > 1
    assert_equal([columns(found)], [first_rows(filled, step * B, step * B + len(found) * B)])


def test_the_share_of_real_tokens(records, tokenizer, filled):
    options = {"masking": TokenMasking(tokenizer, P), "seed": 0, "sequence_length": S}
    pool = Records(records).index(0)
    plain = RowSampler(**options).real_fraction(pool)
    packed = RowSampler(num_parts=default_num_parts(S), **options).real_fraction(pool)
    more = RowSampler(num_parts=default_num_parts(S), fill_rows=True, **options).real_fraction(pool)
    assert plain < packed < more - 0.01 < 1
    real = np.mean([inputs["padding_mask"].mean() for inputs, _, _ in filled])
    assert real == pytest.approx(more, abs=0.05)  # the first of several shards


def test_plain_rows_are_not_filled(records, tokenizer):
    with pytest.raises(ValueError, match="`fill_rows` is for packed rows. Received: fill_rows=True, packed=False"):
        dataset_of(records, tokenizer, fill_rows=True)
