"""Packed rows hold the very examples that plain rows hold, and start_step, seeds and evaluation work as for those."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.pretraining_batches import HELD_OUT, B, assert_equal, batches, dataset_of, examples, rows
from helpers.tiny_corpus import VOCABULARY

from kbert.pretraining.dataset_statistics import dataset_statistics, format_report
from kbert.pretraining.real_shares import real_shares

S, P = 90, 14
PACKED = {"packed": True, "sequence_length": S, "max_predictions": P}
PLAIN = PACKED | {"packed": False}


@pytest.fixture(scope="module")
def straight(records, tokenizer):
    """The first 42 batches of seed 0: more than two epochs."""
    return batches(dataset_of(records, tokenizer, **PACKED), 42)


@pytest.fixture(scope="module")
def evaluation(records, tokenizer):
    """All held-out rows, one by one."""
    return batches(dataset_of(records, tokenizer, evaluation=True, batch_size=1, **PACKED))


def test_structure(straight, records, tokenizer):
    inputs, labels, weights = dataset_of(records, tokenizer, **PACKED).element_spec
    shapes = {name: spec.shape.as_list() for part in (inputs, labels) for name, spec in part.items()}
    whole = dict.fromkeys(("token_ids", "segment_ids", "padding_mask", "position_ids", "part_ids"), [B, S])
    assert shapes == whole | {"mask_positions": [B, P], "mlm_logits": [B, P], "nsp_logits": [B, S // 16]}
    assert {name: spec.shape.as_list() for name, spec in weights.items()} == {
        "mlm_logits": [B, P],
        "nsp_logits": [B, S // 16],
    }
    inputs, labels, weights = (
        {name: np.concatenate([batch[i][name] for batch in straight]) for name in straight[0][i]} for i in range(3)
    )
    np.testing.assert_array_equal(inputs["padding_mask"], inputs["part_ids"] > 0)
    padding = ~inputs["padding_mask"]
    assert (inputs["token_ids"][padding] == tokenizer.pad_id).all()
    assert not inputs["segment_ids"][padding].any() and not inputs["position_ids"][padding].any()
    empty = weights["mlm_logits"] == 0
    assert not labels["mlm_logits"][empty].any() and not inputs["mask_positions"][empty].any()
    assert (np.diff(np.where(empty, 10**6, inputs["mask_positions"]), axis=1) >= 0).all()  # ascending over the parts
    assert padding.mean() < 0.1 and 2 < inputs["part_ids"].max() <= S // 16


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="pairs"),
        pytest.param({"next_sentence": False}, id="singles", marks=pytest.mark.slow),
        pytest.param({"whole_word": True, "mask_rate": 0.2}, id="words", marks=pytest.mark.slow),
    ],
)
def test_the_examples_are_those_of_plain_rows(records, tokenizer, options):
    """The same pairs with the same masks, each exactly once."""
    packed, plain = (
        batches(dataset_of(records, tokenizer, epochs=1, batch_size=1, **kind | options)) for kind in (PACKED, PLAIN)
    )
    assert sorted(examples(packed)) == sorted(examples(plain)) and len(packed) < 0.9 * len(plain)


def test_held_out_examples_are_those_of_plain_rows(records, tokenizer, evaluation):
    plain = batches(dataset_of(records, tokenizer, evaluation=True, batch_size=1, **PLAIN))
    assert sorted(examples(evaluation)) == sorted(examples(plain)) and len(evaluation) < 0.9 * len(plain)


@pytest.mark.slow  # in plain rows: test_dataset_options.py, packed with random masks: above
def test_entities_stay_whole_in_packed_rows(records, tokenizer):
    stop = VOCABULARY.index(".")

    def entity_ids(token_ids):
        return token_ids.with_flat_values(tf.cast(token_ids.flat_values != stop, tf.int32))

    packed, plain = (
        batches(dataset_of(records, tokenizer, entity_ids=entity_ids, epochs=1, batch_size=1, **kind))
        for kind in (PACKED, PLAIN)
    )
    assert sorted(examples(packed)) == sorted(examples(plain))


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 27])
def test_starting_at_step_n_gives_exactly_the_batches_from_n_on(records, tokenizer, straight, step):
    """Over ends of shards and epochs."""
    assert_equal(batches(dataset_of(records, tokenizer, start_step=step, **PACKED), 42 - step), straight[step:])


@pytest.mark.slow  # plain rows of text: test_dataset.py, packed ones of records: above
def test_starting_at_step_n_of_text(corpus, tokenizer):
    """Over an end of a pool."""
    straight = batches(dataset_of(corpus, tokenizer, **PACKED), 9)
    assert_equal(batches(dataset_of(corpus, tokenizer, start_step=7, **PACKED), 2), straight[7:])


def test_rows_do_not_depend_on_the_batch_size(records, tokenizer, straight):
    assert rows(batches(dataset_of(records, tokenizer, batch_size=2 * B, **PACKED), 5)) == rows(straight[:10])


def test_another_seed_gives_other_batches(records, tokenizer, straight):
    other = batches(dataset_of(records, tokenizer, seed=4, **PACKED), 10)
    assert not set(rows(straight[:10])) & set(rows(other))


def test_an_epoch_is_finite_and_the_next_one_draws_anew(records, tokenizer, straight):
    first = batches(dataset_of(records, tokenizer, epochs=1, **PACKED))
    assert 10 < len(first) < 21
    assert_equal(straight[: len(first)], first)
    assert not set(examples(first)) & set(examples(straight[len(first) + 1 : 2 * len(first)]))


def test_full_rows_do_not_come_first(straight, evaluation):
    """Best fit makes the emptiest rows last; in the batches they are among the others, also for evaluation."""
    for some in (straight, evaluation):
        tokens = np.concatenate([inputs["padding_mask"].sum(1) for inputs, _, _ in some])
        assert (np.diff(tokens) > 0).any() and (np.diff(tokens) < 0).any()


def test_the_last_batch_of_an_evaluation_is_filled_up(records, tokenizer, evaluation):
    some = batches(dataset_of(records, tokenizer, evaluation=True, batch_size=4, **PACKED))
    assert len(evaluation) % 4 and examples(evaluation) == examples(some)[: len(examples(evaluation))]
    assert sum(weights["nsp_logits"].sum() for *_, weights in some) == len(examples(evaluation))


def test_statistics_count_parts(records, tokenizer):
    epoch = {"epochs": 1, "batch_size": 1}
    packed, plain = (
        dataset_statistics(dataset_of(records, tokenizer, **epoch | kind), tokenizer, batches=10**6)
        for kind in (PACKED, PLAIN)
    )
    assert plain["parts_per_sequence"] == 1
    assert packed["sequences"] * packed["parts_per_sequence"] == pytest.approx(plain["sequences"])
    for name in ("random_next_share", "mask_token_rate", "unknown_share"):
        assert packed[name] == pytest.approx(plain[name])
    assert packed["padding_share"] < 0.1 < plain["padding_share"]
    assert f"{packed['parts_per_sequence']:.2f} pairs a row" in format_report(packed)
    assert "pairs a row" not in format_report(plain)


@pytest.mark.parametrize("next_sentence", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_real_shares_are_those_of_the_batches(corpus, tokenizer, next_sentence):
    """Of text in one pool, whose batches are all of them."""
    options = {"sequence_length": S, "max_predictions": P, "held_out": HELD_OUT, "next_sentence": next_sentence}
    shares = real_shares(corpus, tokenizer, **options)
    for name, is_packed in (("plain", False), ("packed", True)):
        epoch = dataset_of(corpus, tokenizer, batch_size=1, epochs=1, pool_sentences=10**6, packed=is_packed, **options)
        assert 1 - dataset_statistics(epoch, tokenizer, 10**6)["padding_share"] == pytest.approx(shares[name])


def test_real_shares_of_records_are_those_of_a_shard(records, tokenizer):
    shares = real_shares(records, tokenizer, sequence_length=S, max_predictions=P)
    assert 0.9 < shares["packed"] <= 1 and 0 < shares["plain"] < 0.8


def test_bad_arguments(records, tokenizer):
    for options, message in (
        ({"packed": True, "num_parts": 0}, "`num_parts` must be a positive integer. Received: 0"),
        ({"num_parts": 4}, "`num_parts` is for packed rows. Received: num_parts=4, packed=False"),
    ):
        with pytest.raises(ValueError, match=message):
            dataset_of(records, tokenizer, **options)
