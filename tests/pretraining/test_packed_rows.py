"""Packed rows: which pairs share one, what is in it, the same training, and graphs that datasets share."""

import dataclasses
import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.pretraining_batches import (
    B,
    assert_equal,
    batches,
    columns,
    dataset_of,
    examples,
    first_rows,
    records_of,
)
from helpers.tiny_bert import tiny_config
from helpers.tiny_corpus import VOCABULARY, make_documents, make_tokenizer

from kbert.config import default_num_parts
from kbert.models.pretrainer import BertPretrainer
from kbert.pretraining.dataset_statistics import dataset_statistics, format_report
from kbert.pretraining.masking import TokenMasking
from kbert.pretraining.row_sampler import RowSampler
from kbert.pretraining.rows import assign_rows
from kbert.pretraining.tfrecords import write_tfrecords

S, P = 90, 14
PACKED = {"packed": True, "sequence_length": S, "max_predictions": P}
PLAIN = PACKED | {"packed": False}


@pytest.fixture(scope="module")
def straight(records, tokenizer):
    """The first 42 batches of seed 0: more than two epochs."""
    return batches(dataset_of(records, tokenizer, **PACKED), 42)


@pytest.fixture(scope="module")
def epoch(records, tokenizer):
    """The packed and the plain rows of the first epoch, one by one."""
    return [batches(dataset_of(records, tokenizer, epochs=1, batch_size=1, **kind)) for kind in (PACKED, PLAIN)]


@pytest.fixture(scope="module")
def evaluation(records, tokenizer):
    """All held-out rows, one by one."""
    return batches(dataset_of(records, tokenizer, evaluation=True, batch_size=1, **PACKED))


@pytest.fixture(scope="module")
def plain_evaluation(records, tokenizer):
    return batches(dataset_of(records, tokenizer, evaluation=True, batch_size=1, **PLAIN))


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
        pytest.param(None, id="pairs"),
        pytest.param({"next_sentence": False}, id="singles", marks=pytest.mark.slow),
        pytest.param({"whole_word": True, "mask_rate": 0.2}, id="words", marks=pytest.mark.slow),
    ],
)
def test_the_examples_are_those_of_plain_rows(records, tokenizer, epoch, options):
    """The same pairs with the same masks, each exactly once."""
    packed, plain = epoch
    if options is not None:
        packed, plain = (
            batches(dataset_of(records, tokenizer, epochs=1, batch_size=1, **kind | options))
            for kind in (PACKED, PLAIN)
        )
    assert sorted(examples(packed)) == sorted(examples(plain)) and len(packed) < 0.9 * len(plain)


def test_held_out_examples_are_those_of_plain_rows(evaluation, plain_evaluation):
    assert sorted(examples(evaluation)) == sorted(examples(plain_evaluation))
    assert len(evaluation) < 0.9 * len(plain_evaluation)


@pytest.mark.slow  # test_further_parts.py, test_starting_at_step_n
@pytest.mark.parametrize("step", [1, 27])
def test_starting_at_step_n_gives_exactly_the_batches_from_n_on(records, tokenizer, straight, step):
    """Over ends of shards and epochs."""
    assert_equal(batches(dataset_of(records, tokenizer, start_step=step, **PACKED), 42 - step), straight[step:])


def test_an_epoch_is_finite_and_the_next_one_draws_anew(epoch, straight):
    """Its rows do not depend on the batch size."""
    first, _ = epoch
    number = len(first) // B
    assert 10 < number < 21
    assert_equal([first_rows(straight, 0, len(first))], [columns(first)])
    assert not set(examples(first)) & set(examples(straight[number + 1 : 2 * number]))


def test_full_rows_do_not_come_first(straight, evaluation):
    """Best fit makes the emptiest rows last; in the batches they are among the others, also for evaluation."""
    for some in (straight, evaluation):
        tokens = np.concatenate([inputs["padding_mask"].sum(1) for inputs, _, _ in some])
        assert (np.diff(tokens) > 0).any() and (np.diff(tokens) < 0).any()


def test_statistics_count_parts(tokenizer, epoch):
    packed, plain = (
        dataset_statistics(tf.data.Dataset.from_tensors(columns(kind)), tokenizer, batches=10**6) for kind in epoch
    )
    assert plain["parts_per_sequence"] == 1
    assert packed["sequences"] * packed["parts_per_sequence"] == pytest.approx(plain["sequences"])
    for name in ("random_next_fraction", "mask_token_rate", "unknown_fraction"):
        assert packed[name] == pytest.approx(plain[name])
    assert packed["padding_fraction"] < 0.1 < plain["padding_fraction"]
    assert f"{packed['parts_per_sequence']:.2f} pairs a row" in format_report(packed)
    assert "pairs a row" not in format_report(plain)


@pytest.mark.parametrize("next_sentence", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_real_fractions_are_those_of_the_batches(tokenizer, tmp_path, next_sentence):
    """Of records with one shard, whose batches are all of them; plain rows have one of the packed rows' pairs each."""
    records = records_of(make_documents(60), tmp_path / "records")
    options = {"sequence_length": S, "next_sentence": next_sentence}
    sampler = RowSampler(masking=TokenMasking(tokenizer, P), seed=0, **options)
    pool = records.index(0)
    found = batches(dataset_of(records, tokenizer, batch_size=1, epochs=1, packed=True, max_predictions=P, **options))
    parts = [inputs["part_ids"] for inputs, _, _ in found]
    tokens, pairs = sum((row > 0).sum() for row in parts), sum(row.max() for row in parts)
    packed = dataclasses.replace(sampler, num_parts=default_num_parts(S)).real_fraction(pool)
    assert tokens / (len(found) * S) == pytest.approx(packed)
    assert tokens / (pairs * S) == pytest.approx(sampler.real_fraction(pool))
    if next_sentence:
        assert 0.9 < packed <= 1 and 0 < sampler.real_fraction(pool) < 0.8


def test_bad_arguments(records, tokenizer):
    for options, message in (
        ({"packed": True, "num_parts": 0}, "`num_parts` must be a positive integer or None. Received: 0"),
        ({"num_parts": 4}, "`num_parts` is for packed rows. Received: num_parts=4, packed=False"),
    ):
        with pytest.raises(ValueError, match=message):
            dataset_of(records, tokenizer, **options)


def best_fit(lengths, masks, sequence_length, max_predictions, num_parts):
    """The algorithm part by part: how many rows it takes."""
    rows = []  # [tokens, masks, parts] that are free
    for part in np.argsort(-lengths, kind="stable"):
        fitting = [r for r in rows if r[0] >= lengths[part] and r[1] >= masks[part] and r[2] >= 1]
        if not fitting:
            fitting = [[sequence_length, max_predictions, num_parts]]
            rows += fitting
        row = min(fitting, key=lambda row: row[0])
        row[0], row[1], row[2] = row[0] - lengths[part], row[1] - masks[part], row[2] - 1
    return len(rows)


@pytest.mark.parametrize("sequence_length, max_predictions, num_parts", [(64, 10, 4), (64, 20, 30), (512, 80, 32)])
@pytest.mark.parametrize("mean", [7, 20, 60])
def test_limits_and_number_of_rows(sequence_length, max_predictions, num_parts, mean):
    lengths = np.clip(np.random.default_rng(mean).geometric(1 / mean, 700) + 4, 5, sequence_length)
    masks = np.clip(np.round(lengths * 0.15), 1, max_predictions).astype(int)
    rows = assign_rows(lengths, masks, sequence_length, max_predictions, num_parts)
    assert rows.dtype == np.int32 and set(rows) == set(range(rows.max() + 1))
    assert np.bincount(rows, lengths).max() <= sequence_length
    assert np.bincount(rows, masks).max() <= max_predictions
    assert np.bincount(rows).max() <= num_parts
    expected = best_fit(lengths, masks, sequence_length, max_predictions, num_parts)
    assert abs(rows.max() + 1 - expected) <= 0.01 * expected  # equal spaces are not taken in the same order
    shuffled = np.random.default_rng(0).permutation(700)
    again = assign_rows(lengths[shuffled], masks[shuffled], sequence_length, max_predictions, num_parts)
    assert again.max() == rows.max()  # so that counting rows needs no order


def test_by_hand():
    assert assign_rows([5, 3, 4], [1, 1, 1], 8, 2, 2).tolist() == [0, 0, 1]
    assert assign_rows([2, 2, 2], [1, 1, 1], 8, 2, 4).tolist() == [0, 0, 1]  # masks
    assert assign_rows([2, 2, 2], [1, 1, 1], 8, 8, 2).tolist() == [0, 0, 1]  # parts
    assert assign_rows([8, 8], [1, 1], 8, 1, 1).tolist() == [0, 1]
    assert assign_rows([7, 6, 2, 1], [1] * 4, 8, 9, 9).tolist() == [0, 1, 1, 0]  # the least space that is enough
    assert assign_rows([], [], 8, 2, 2).tolist() == []


@pytest.fixture(scope="module")
def held_out(evaluation, plain_evaluation):
    """All pairs of the held-out documents as one batch of packed rows, and as one of plain rows."""
    return [columns(evaluation), columns(plain_evaluation)]


@pytest.fixture(scope="module")
def model():
    config = tiny_config(
        vocabulary_size=len(VOCABULARY), num_heads=2, max_sequence_length=S, hidden_dropout=0.0, attention_dropout=0.0
    )
    return BertPretrainer(config)


def updated(model, batch, packed):
    """Losses and metrics of a step of plain gradient descent, and the weights after it; those of the model stay."""
    before = model.get_weights()
    trained = model.with_parts(S // 16) if packed else model
    trained.compile(keras.optimizers.SGD(1.0))
    logs = trained.train_on_batch(*batch, return_dict=True)
    after = model.get_weights()
    model.set_weights(before)
    return {name: float(value) for name, value in logs.items()}, after


@pytest.mark.usefixtures("eagerly")
def test_packed_rows_train_as_separate_rows(held_out, model):
    rng = np.random.default_rng(6)
    model.set_weights([rng.normal(size=w.shape) * 0.2 for w in model.get_weights()])
    (packed_logs, packed), (logs, plain) = (
        updated(model, batch, is_packed) for batch, is_packed in zip(held_out, (True, False), strict=True)
    )
    assert packed_logs == pytest.approx(logs, rel=1e-5) and {"loss", "nsp_logits_loss"} <= set(logs)
    for one, other in zip(packed, plain, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)
    assert max(np.abs(one - before).max() for one, before in zip(packed, model.get_weights(), strict=True)) > 0.1


def test_a_view_for_packed_rows_has_the_same_variables_in_the_same_order(model):
    view = model.with_parts(3)
    assert [id(v) for v in view.variables] == [id(v) for v in model.variables]
    assert view.output["nsp_logits"].shape == (None, 3, 2) and view.encoder.num_parts == 3
    plain = view.with_parts(None)
    assert sorted(plain.input) == sorted(model.input) and plain.output["nsp_logits"].shape == (None, 2)
    model.encoder.blocks[0].trainable = False
    assert [v.trainable for v in view.variables] == [v.trainable for v in model.variables]
    model.encoder.blocks[0].trainable = True


def test_a_view_is_serialised_as_a_model_of_its_own(model, held_out):
    view = model.with_parts(S // 16)
    again = BertPretrainer.from_config(view.get_config())
    again.set_weights(view.get_weights())
    for name, value in view(held_out[0][0]).items():
        np.testing.assert_allclose(again(held_out[0][0])[name], value, atol=1e-6)
    single = BertPretrainer(model.config, next_sentence=False).with_parts(4)
    assert set(single.output) == {"mlm_logits"} and "part_ids" in single.input


@pytest.mark.parametrize("options", [PACKED, PLAIN], ids=["packed rows", "TFRecords"])
def test_a_dataset_that_is_gone_keeps_no_tokenizer(options, records, tmp_path):
    """TensorFlow keeps functions of `tf.numpy_function`, and what they refer to, as long as the process."""
    source = records
    if options is PLAIN:
        source = tmp_path / "rows.tfrecord"
        write_tfrecords(dataset_of(records, make_tokenizer(), **PLAIN, batches=2), source)
    tokenizer = make_tokenizer()
    reference = weakref.ref(tokenizer)
    next(iter(dataset_of(source, tokenizer, **options)))
    del tokenizer
    gc.collect()
    assert reference() is None
