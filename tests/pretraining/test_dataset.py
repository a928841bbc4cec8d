"""Batches of pre-training: their structure, and that batch n is a function of (seed, n) and nothing else."""

import hashlib
import importlib.util
import itertools
import json
import re
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from helpers.paths import ROOT
from helpers.pretraining_batches import (
    HELD_OUT,
    B,
    P,
    S,
    assert_equal,
    batches,
    columns,
    dataset_of,
    first_rows,
    originals,
    rows,
)
from helpers.run_python import run_python
from helpers.tiny_corpus import VOCABULARY

from kbert.corpus import pool as pool_module
from kbert.corpus.documents import read_documents
from kbert.corpus.held_out import is_held_out
from kbert.corpus.records import Records
from kbert.pretraining.pairs import count_pairs
from kbert.pretraining.record_pools import held_out_fractions


@pytest.fixture(scope="module")
def straight(record_batches):
    """The first 110 batches of seed 0: more than two epochs."""
    return record_batches


@pytest.fixture(scope="module")
def evaluation(records, tokenizer):
    return dataset_of(records, tokenizer, evaluation=True)


@pytest.mark.parametrize("memory, most", [(2**30, 8), (1, 2)], ids=["all-threads", "bounded-by-memory"])
def test_shards_are_read_at_once(records, tokenizer, monkeypatch, memory, most):
    """Each takes 20 ms; TensorFlow has 8 threads."""
    read_tokens, lock, reading, counts = Records._read_tokens, threading.Lock(), [0], []

    def read_slowly(self, shard):
        with lock:
            reading[0] += 1
            counts.append(reading[0])
        time.sleep(0.02)
        with lock:
            reading[0] -= 1
        return read_tokens(self, shard)

    monkeypatch.setattr(Records, "_read_tokens", read_slowly)
    monkeypatch.setattr(pool_module, "_BYTES_AT_ONCE", memory)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 8
    batches(dataset_of(records, tokenizer).with_options(options), 40)
    assert most // 2 < max(counts) <= most


def test_no_stage_has_a_fixed_number_of_threads():
    for room in ("corpus", "preprocessing", "pretraining"):
        for path in (ROOT / "kbert" / room).rglob("*.py"):
            assert not re.search(r"num_parallel_calls=\d", path.read_text()), path


def test_structure(evaluation):
    inputs, labels, weights = evaluation.element_spec
    whole, slots = tf.TensorShape([B, S]), tf.TensorShape([B, P])
    assert {name: (spec.shape, spec.dtype) for name, spec in inputs.items()} == {
        "token_ids": (whole, tf.int32),
        "segment_ids": (whole, tf.int32),
        "padding_mask": (whole, tf.bool),
        "mask_positions": (slots, tf.int32),
    }
    assert {name: (spec.shape, spec.dtype) for name, spec in labels.items()} == {
        "mlm_logits": (slots, tf.int32),
        "nsp_logits": (tf.TensorShape([B]), tf.int32),
    }
    assert {name: (spec.shape, spec.dtype) for name, spec in weights.items()} == {
        "mlm_logits": (slots, tf.float32),
        "nsp_logits": (tf.TensorShape([B]), tf.float32),
    }


def test_rows_are_packed_pairs(straight, tokenizer):
    some = straight[:40]
    token_ids = originals(some)
    segments, padding, labels = (
        np.concatenate([part[name] for part in parts])
        for parts, name in (
            ([b[0] for b in some], "segment_ids"),
            ([b[0] for b in some], "padding_mask"),
            ([b[1] for b in some], "nsp_logits"),
        )
    )
    assert set(labels) == {0, 1} and 0.5 < labels.mean() < 0.95  # many documents of one sentence here
    assert (token_ids[:, 0] == tokenizer.cls_id).all()
    assert ((token_ids == tokenizer.sep_id).sum(1) == 2).all()
    assert ((token_ids == tokenizer.pad_id) == ~padding).all()
    for row, segment, length in zip(token_ids, segments, padding.sum(1), strict=True):
        first, last = np.flatnonzero(row == tokenizer.sep_id)
        assert last == length - 1 and 1 < first < last - 1
        assert segment.tolist() == [0] * (first + 1) + [1] * (last - first) + [0] * (S - length)


def test_both_segments_are_text_of_the_corpus(straight, corpus, tokenizer):
    texts = [tokenizer(tf.constant(document)).flat_values.numpy() for document in read_documents(corpus)]
    texts = [" ".join(map(str, ids)) + " " for ids in texts]
    for row in originals(straight[:10]):
        first, last = np.flatnonzero(row == tokenizer.sep_id)
        for segment in (row[1:first], row[first + 1 : last]):
            assert any(" ".join(map(str, segment)) + " " in text for text in texts)


def test_the_next_sentence_follows(straight, corpus, tokenizer):
    """0 = B really follows A: in rows that are not full, and so not truncated."""
    texts = [tokenizer(tf.constant(document)).flat_values.numpy() for document in read_documents(corpus)]
    texts = [" " + " ".join(map(str, ids)) + " " for ids in texts]
    follows = {0: [], 1: []}
    labels = np.concatenate([labels["nsp_logits"] for _, labels, _ in straight[:40]])
    for row, label in zip(originals(straight[:40]), labels, strict=True):
        if row[-1] == tokenizer.pad_id:
            first, last = np.flatnonzero(row == tokenizer.sep_id)
            both = f" {' '.join(map(str, [*row[1:first], *row[first + 1 : last]]))} "
            follows[int(label)].append(any(both in text for text in texts))
    assert len(follows[0]) > 5 and all(follows[0])
    assert len(follows[1]) > 5 and not all(follows[1])


def test_another_seed_gives_other_batches(records, tokenizer, straight):
    other = batches(dataset_of(records, tokenizer, seed=4), 12)
    assert len(set(rows(straight[:12])) & set(rows(other))) < 3


@pytest.mark.parametrize("step", [pytest.param(7, marks=pytest.mark.slow), 68])
def test_starting_at_step_n_gives_exactly_the_batches_from_n_on(records, tokenizer, straight, step):
    """Over ends of pools, shards and epochs, up to the end of the last one."""
    found = batches(dataset_of(records, tokenizer, start_step=step, epochs=3))
    assert_equal(found[: 110 - step], straight[step:])
    assert 3 * 40 < step + len(found) < 3 * 54


PRINT_HASHES = """
import hashlib, json, pathlib, sys
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
from helpers.tiny_corpus import make_tokenizer
from kbert.pretraining.dataset import pretraining_dataset

source, batch_size, sequence_length, predictions, options, start_step = json.loads(sys.argv[1])
dataset = pretraining_dataset(
    source, make_tokenizer(), batch_size=batch_size, sequence_length=sequence_length, max_predictions=predictions,
    start_step=start_step, **options).take(3)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
hashes, sizes = [], []
for batch in strategy.experimental_distribute_dataset(dataset):
    columns = [strategy.experimental_local_results(part[name]) for part in batch for name in sorted(part)]
    sizes.append([len(part) for part in columns[0]])
    hashes.append([hashlib.sha256(tf.concat(parts, 0).numpy().tobytes()).hexdigest() for parts in columns])
print(json.dumps({"hashes": hashes, "sizes": sizes}))
"""


def test_batches_are_those_of_every_process(record_batches, tokenizer, records):
    """Of any version and machine: they are integers."""
    found = hashlib.sha256()
    for batch in record_batches[11:14]:
        for part in batch:
            for name in sorted(part):
                found.update(part[name].tobytes())
    assert found.hexdigest() == "0cc4e32e4aeb254115fae1dbd27b20f1574cc531bf91645988bdad270dda504c"
    # Each replica takes its part of a whole batch.
    policy = dataset_of(records, tokenizer).options().experimental_distribute.auto_shard_policy
    assert policy == tf.data.experimental.AutoShardPolicy.DATA


@pytest.mark.slow  # test_batches_are_those_of_every_process
def test_same_batches_in_another_process_and_on_two_replicas(records, straight):
    """With Keras on JAX too: the pipeline is TensorFlow either way. The replicas' parts are a batch, one by one."""
    backend = "jax" if importlib.util.find_spec("jax") else "tensorflow"
    found = run_python(
        PRINT_HASHES,
        json.dumps([str(records), B, S, P, {}, 11]),
        backend=backend,
        forked=True,
    )
    assert found["hashes"] == [
        [hashlib.sha256(part[name].tobytes()).hexdigest() for part in batch for name in sorted(part)]
        for batch in straight[11:14]
    ]
    assert [sorted(sizes) for sizes in found["sizes"]] == [[B // 2, B - B // 2]] * 3


def test_epochs_draw_anew_and_visit_every_document(records, tokenizer, straight):
    """An epoch's end is no end of a batch; the next epoch has the same documents, but not the same rows.

    What a row holds does not depend on the batch it stands in.
    """
    first = batches(dataset_of(records, tokenizer, epochs=1, batch_size=2 * B))
    assert_equal([first_rows(straight, 0, 2 * B * len(first))], [columns(first)])
    number = 2 * len(first)
    assert 40 <= number < 54
    second = straight[number + 1 : 2 * number]
    assert len(set(rows(first)) & set(rows(second))) < 0.1 * len(rows(second))

    def frequencies(some):
        return np.bincount(originals(some).ravel(), minlength=len(VOCABULARY))[6:]

    assert np.corrcoef(frequencies(first), frequencies(second))[0, 1] > 0.9


def test_an_epoch_is_shuffled(tokenizer, straight, corpus):
    """Neighbouring rows are seldom of one document."""
    owners = owners_of(straight[:20], tokenizer, corpus)
    assert len(owners) > 40
    assert np.mean([a == b for a, b in itertools.pairwise(owners)]) < 0.3


def owners_of(some, tokenizer, corpus):
    """The number of the document that each row is from, where its first segment is long enough to tell."""
    texts = [" ".join(map(str, tokenizer(tf.constant(d)).flat_values.numpy())) + " " for d in read_documents(corpus)]
    owners = []
    for row in originals(some):
        first = np.flatnonzero(row == tokenizer.sep_id)[0]
        if first > 5:
            segment = " ".join(map(str, row[1:first])) + " "
            owners.append(next(i for i, text in enumerate(texts) if segment in text))
    return owners


def test_held_out_documents_are_never_trained_on(corpus, tokenizer, straight, evaluation):
    documents = list(read_documents(corpus))
    assert 5 < sum(is_held_out(document, HELD_OUT) for document in documents) < 30

    def grams(some):
        found = set()
        for row in originals(some):
            first, last = np.flatnonzero(row == tokenizer.sep_id)
            for segment in (row[1:first], row[first + 1 : last]):
                found |= {tuple(segment[i : i + 8].tolist()) for i in range(len(segment) - 7)}
        return found

    training, held_out = grams(straight), grams(batches(evaluation))
    assert len(training) > 500 and len(held_out) > 100 and not training & held_out


def test_evaluation_is_fixed_finite_and_whole(records, tokenizer, evaluation):
    first = batches(evaluation)
    assert_equal(first, batches(evaluation))
    assert len(evaluation) == len(first)
    assert_equal(first, batches(dataset_of(records, tokenizer, evaluation=True, seed=2)))
    # Filled up to whole batches: every row once, the filling without weight.
    weights = np.concatenate([weights["nsp_logits"] for *_, weights in first])
    masks = np.concatenate([weights["mlm_logits"] for *_, weights in first])
    number = int(weights.sum())
    assert 0 < number <= len(weights) < number + B and (np.sort(weights)[::-1] == weights).all()
    assert (masks[:number].sum(1) >= 1).all() and (masks[number:] == 0).all()


@pytest.mark.parametrize(
    "packed", [pytest.param(False, id="plain"), pytest.param(True, id="packed", marks=pytest.mark.slow)]
)
def test_a_few_evaluation_batches_stand_for_all_held_out_documents(records, tokenizer, corpus, evaluation, packed):
    """A held-out document may be a book: the first rows in its order would say nothing about the others."""
    whole = dataset_of(records, tokenizer, evaluation=True, packed=True) if packed else evaluation
    few = dataset_of(records, tokenizer, evaluation=True, packed=packed, batches=3)
    whole, few = batches(whole), batches(few)
    assert len(few) == 3 and len(rows(few)) == len(set(rows(few))) and set(rows(few)) < set(rows(whole))
    if not packed:
        owners = owners_of(few, tokenizer, corpus)
        assert np.mean([a == b for a, b in itertools.pairwise(owners)]) < 0.4


def test_every_shard_of_held_out_records_gives_its_share(records, tokenizer):
    shards = Records(records)
    assert len(shards.held_out) > 2
    counts = [int(count_pairs(shards.index(i, True), 0, 0, S - 3)) for i in range(len(shards.held_out))]
    fractions = held_out_fractions(shards, lambda pool, epoch: count_pairs(pool, 0, epoch, S - 3), 20)
    assert fractions.sum() == 20 and (np.abs(fractions - 20 * np.array(counts) / sum(counts)) < 1).all()
    assert held_out_fractions(shards, lambda pool, epoch: 7, 10_000).tolist() == [7] * len(shards.held_out)
