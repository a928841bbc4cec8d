"""Records of the original's create_pretraining_data.py: written, read as its run_pretraining.py does, learnt."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from helpers.at_step import Killed, killed_at
from helpers.compare import assert_arrays_equal
from helpers.pretraining_batches import B, P, S, assert_equal, batches, dataset_of, originals, rows
from helpers.tiny_corpus import VOCABULARY
from helpers.wrong_values import wrong_values

import kbert
from kbert.pretraining import token_counts, write_tfrecords

LENGTHS = {"batch_size": B, "sequence_length": S, "max_predictions": P}
OF_RUN = {"batch_size": B, "sequence_length": S, "masking": kbert.pretraining.Masking(max_predictions=P)}


@pytest.fixture(scope="module")
def written(record_batches, tmp_path_factory):
    """(pattern, batches): two files of the rows of 40 batches."""
    directory = tmp_path_factory.mktemp("tfrecords")
    some = record_batches[:40]
    assert write_tfrecords(some, [directory / "a.tfrecord", directory / "b.tfrecord"]) == 40 * B
    return str(directory / "*.tfrecord"), some


def read_as_the_original(path):
    """The rows of a file by the features and the casts of `input_fn_builder` in run_pretraining.py."""
    features = {
        "input_ids": tf.io.FixedLenFeature([S], tf.int64),
        "input_mask": tf.io.FixedLenFeature([S], tf.int64),
        "segment_ids": tf.io.FixedLenFeature([S], tf.int64),
        "masked_lm_positions": tf.io.FixedLenFeature([P], tf.int64),
        "masked_lm_ids": tf.io.FixedLenFeature([P], tf.int64),
        "masked_lm_weights": tf.io.FixedLenFeature([P], tf.float32),
        "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),
    }
    for record in tf.data.TFRecordDataset(str(path)):
        example = tf.io.parse_single_example(record, features)
        yield {name: value.numpy() for name, value in example.items()}


def test_the_original_reads_what_is_written(written):
    pattern, expected = written
    files = sorted(tf.io.gfile.glob(pattern))
    read = itertools.chain(*zip(*map(read_as_the_original, files), strict=True))  # in turn, as they were written
    for inputs, labels, weights in expected:
        for row in range(B):
            example = next(read)
            np.testing.assert_array_equal(example["input_ids"], inputs["token_ids"][row])
            np.testing.assert_array_equal(example["input_mask"], inputs["padding_mask"][row])
            np.testing.assert_array_equal(example["segment_ids"], inputs["segment_ids"][row])
            np.testing.assert_array_equal(example["masked_lm_positions"], inputs["mask_positions"][row])
            np.testing.assert_array_equal(example["masked_lm_ids"], labels["mlm_logits"][row])
            np.testing.assert_array_equal(example["masked_lm_weights"], weights["mlm_logits"][row])
            assert example["next_sentence_labels"] == [labels["nsp_logits"][row]]
    assert next(read, None) is None


@pytest.mark.slow  # test_pretrain_learns_from_them; the order: test_dataset.py
def test_an_epoch_has_every_row_once_in_the_order_of_the_seed(written, tokenizer):
    pattern, expected = written
    training, held_out = (dataset_of(pattern, tokenizer, **which) for which in ({}, {"evaluation": True}))
    held_out = batches(held_out)
    real = sum(int((weights["nsp_logits"] > 0).sum()) for _, _, weights in held_out)
    assert 0 < real < 40 * B / 2
    epoch = batches(dataset_of(pattern, tokenizer, epochs=1, batch_size=1))
    assert len(rows(epoch)) == 40 * B - real
    assert sorted(rows(epoch) + rows(held_out)[:real]) == sorted(rows(expected))
    kept = {row.tobytes() for row in originals(epoch)}
    assert kept.isdisjoint(row.tobytes() for row in originals(held_out)[:real])
    straight = batches(training, 90)  # more than two epochs
    number = (40 * B - real) // B
    assert rows(straight[:number]) != rows(straight[number : 2 * number])
    assert_equal(straight[70:], batches(dataset_of(pattern, tokenizer, start_step=70), 20))
    assert_equal(straight[:5], batches(dataset_of(pattern, tokenizer), 5))
    assert rows(straight[:5]) != rows(batches(dataset_of(pattern, tokenizer, seed=1), 5))


def test_the_specification_is_that_of_records(records, written, tokenizer):
    of_text, of_records = (dataset_of(source, tokenizer) for source in (records, written[0]))
    assert of_text.element_spec == of_records.element_spec
    without = dataset_of(written[0], tokenizer, next_sentence=False).element_spec
    assert "nsp_logits" not in without[1] | without[2]


def test_token_counts_are_those_of_the_text_in_the_rows(written, tokenizer):
    counts = token_counts(written[0], tokenizer, held_out=0.0)
    ids = originals(written[1])
    expected = np.bincount(ids.ravel(), minlength=len(VOCABULARY))
    expected[[tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id]] = 0
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.usefixtures("eagerly")
def test_pretrain_learns_from_them(written, tokenizer):
    options = {**OF_RUN, "vocabulary": tokenizer, "held_out": 0.2, "evaluation_batches": 1, "steps": 1}
    run = kbert.pretrain(written[0], **options)
    assert run.metrics["unigram"]["masks"] > 0 and np.isfinite(run.metrics["loss"])


# test_pretrain_learns_from_them; the batches from a step on: test_an_epoch_has_every_row_once_in_the_order_of_the_seed
@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_pretrain_learns_from_them_and_resumes(written, tokenizer, tmp_path):
    options = {**OF_RUN, "vocabulary": tokenizer, "held_out": 0.2, "evaluation_batches": 1, "steps": 2}
    options |= {"log_every": 1, "checkpoint_every": 1}
    expected = kbert.pretrain(written[0], **options)
    assert expected.metrics["unigram"]["masks"] > 0

    with pytest.raises(Killed):
        kbert.pretrain(written[0], output=tmp_path / "run", callbacks=killed_at(2), **options)
    resumed = kbert.pretrain(written[0], output=tmp_path / "run", **options)
    assert_arrays_equal(expected.model.get_weights(), resumed.model.get_weights())


def test_what_they_cannot_be_is_an_error(written, tokenizer):
    wrong_values(
        functools.partial(dataset_of, written[0], tokenizer),
        ({"sequence_length": 24}, r"a\.tfrecord has rows of sequence_length=23 .*=4.*Received: 24 and 4"),
        ({"max_predictions": 5}, "max_predictions=4.*Received: 23 and 5"),
        ({"whole_word": True}, "masked when they were written.*Received: whole_word=True"),
        ({"mask_rate": 0.3}, "Received: mask_rate=0.3"),
        ({"packed": True}, "Received: packed=True"),
        ({"held_out": 0.0, "evaluation": True}, "held_out=0"),
        ({"held_out": 0.9999999}, "none .* for training"),
    )


def test_pretrain_refuses_what_was_decided_when_they_were_written(written, tokenizer):
    with pytest.raises(ValueError, match="Received: mask_rate=0.2"):
        kbert.pretrain(written[0], vocabulary=tokenizer, steps=1, **OF_RUN, mask_rate=0.2)


def test_ids_beyond_the_vocabulary_and_damage_are_named(written, tokenizer, tmp_path):
    [inputs, labels, weights] = written[1][0]
    inputs = {**inputs, "token_ids": np.full_like(inputs["token_ids"], len(VOCABULARY))}
    path = tmp_path / "x.tfrecord"
    write_tfrecords([(inputs, labels, weights)], path)
    with pytest.raises(ValueError, match=rf"{path}.*from 0 to {len(VOCABULARY) - 1}. Received: .*{len(VOCABULARY)}"):
        batches(dataset_of(path, tokenizer, evaluation=True, held_out=0.999))
    content = bytearray(open(tf.io.gfile.glob(written[0])[0], "rb").read())
    path.write_bytes(content[:-5])
    with pytest.raises(ValueError, match=rf"{path}.*truncated"):
        batches(dataset_of(path, tokenizer, evaluation=True, held_out=0.999))
    content[-9] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{path}.*corrupted"):
        batches(dataset_of(path, tokenizer, evaluation=True, held_out=0.999))
    path.write_bytes(b"no record at all")
    with pytest.raises(ValueError, match=rf"{path}.*damaged"):
        dataset_of(path, tokenizer)
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(tf.train.Example().SerializeToString())
    with pytest.raises(ValueError, match=rf"{path}: .*input_ids"):
        dataset_of(path, tokenizer)
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(b"no Example at all")
    with pytest.raises(ValueError, match=rf"{path}: .*a record that is no tf.train.Example"):
        dataset_of(path, tokenizer)


def test_every_file_is_looked_at_before_the_first_batch(written, tokenizer, tmp_path):
    [inputs, *rest] = written[1][0]
    none, whole, short = (tmp_path / f"{name}.tfrecord" for name in ("a", "b", "c"))
    none.write_bytes(b"")
    write_tfrecords([(inputs, *rest)], whole)
    dataset_of([none, whole], tokenizer)
    assert token_counts([none, whole], tokenizer, held_out=0.0).sum() > 0
    narrow = {name: column[:, :-2] for name, column in inputs.items() if column.shape[1] == S}
    write_tfrecords([(inputs | narrow, *rest)], short)
    for read in (dataset_of, functools.partial(token_counts, held_out=0.0)):
        with pytest.raises(
            ValueError, match=rf"{short}: expected .*={S} and .*={P}, as {whole} has.*: {S - 2} and {P}"
        ):
            read([none, whole, short], tokenizer)
    short.write_bytes(b"no record at all")
    with pytest.raises(ValueError, match=f"{short} is damaged"):
        dataset_of([none, whole, short], tokenizer)


def test_packed_rows_and_rows_without_next_sentences_are_not_written(record_batches, tmp_path):
    """Batches with the names of such rows: `pretraining_dataset` gives them, test_packed_rows.py, test_structure."""
    inputs, labels, weights = record_batches[0]
    packed = {**inputs, "position_ids": inputs["segment_ids"], "part_ids": inputs["segment_ids"]}
    no_labels, no_weights = ({"mlm_logits": part["mlm_logits"]} for part in (labels, weights))
    for batch in ((packed, labels, weights), (inputs, no_labels, no_weights)):
        with pytest.raises(ValueError, match="plain rows with next sentences"):
            write_tfrecords([batch], tmp_path / "x.tfrecord")
        assert not list(tmp_path.iterdir())
