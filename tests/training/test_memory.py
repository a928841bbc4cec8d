"""A batch that memory cannot hold is refused or named; freed memory stays with the process."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from helpers import tiny_pretraining as tiny
from helpers.paths import ROOT
from helpers.tiny_bert import tiny_config

import kbert
from kbert.training import memory
from kbert.training.flops import batch_shape
from kbert.training.memory import check_batch_memory, memory_errors

FAULTS = """
import ctypes, resource, sys, threading
if sys.argv[1] == "keep":
    from kbert.training.memory import keep_freed_memory
    if not keep_freed_memory():
        sys.exit("another C library")
library = ctypes.CDLL(None)
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]

def use_again():
    for _ in range(8):
        block = library.malloc(66 << 20)  # more than the 64 MB that another thread's arena holds
        ctypes.memset(block, 1, 66 << 20)
        library.free(block)

before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
use_again()
worker = threading.Thread(target=use_again)  # TensorFlow's steps run in such
worker.start()
worker.join()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def batches(rows, length, make=tf.zeros):
    """A dataset that says its batches are [rows, length]."""

    def batch(_):
        inputs = {name: make((rows, length), tf.int32) for name in ("token_ids", "segment_ids")}
        return inputs | {"padding_mask": make((rows, length), tf.bool)}, {"logits": make((rows,), tf.int32)}

    return tf.data.Dataset.range(100).map(batch)


@pytest.fixture(scope="module")
def model():
    model = kbert.BertClassifier(tiny_config(), num_labels=2)
    model.compile("adam")
    return model


def test_what_can_never_fit_is_refused_before_it_is_made(model, tmp_path):
    dataset = batches(10**9, 16)
    assert batch_shape(dataset) == (10**9, 16)
    message = (
        r"A batch of 1,000,000,000 rows of 16 tokens does not fit into memory.* at least [\d,.]+ GiB.* has [\d,.]+"
    )
    with pytest.raises(ValueError, match=message):
        tiny.train(model, lambda start_step: dataset, 2, tmp_path)


def test_the_estimate_is_a_lower_bound(model, monkeypatch):
    monkeypatch.setattr(memory, "machine_memory", lambda: 2 * 8 * 16 * (4 * 12 + 20) * 4)  # 2 layers, 8 rows
    check_batch_memory(model, 8, 16)
    with pytest.raises(ValueError, match="9 rows"):
        check_batch_memory(model, 9, 16)
    check_batch_memory(model, 32)  # rows of 4 tokens, where the length is not known
    monkeypatch.setenv("TF_CONFIG", "{}")
    check_batch_memory(model, 10**9, 16)
    monkeypatch.undo()
    assert 2**28 < memory.machine_memory() < 2**50


def test_of_a_batch_that_is_divided_a_part_is_counted(monkeypatch):
    monkeypatch.setattr(memory, "machine_memory", lambda: 2 * 8 * 16 * (4 * 12 + 20) * 4)  # 2 layers, 8 rows
    model = kbert.BertClassifier(tiny_config(), num_labels=2)
    model.compile("adam", micro_batches=3)
    check_batch_memory(model, 24, 16)
    with pytest.raises(ValueError, match="27 rows"):
        check_batch_memory(model, 27, 16)


def _out_of_memory(ids):
    raise MemoryError("OOM when allocating tensor with shape[100000000,10000000]")  # as TensorFlow's kernels say it


def _allocate(ids):
    """The allocation of 4,000 TB fails on every machine, after TensorFlow has tried it several times for 10 s."""
    return ids + tf.cast(tf.reduce_sum(tf.zeros((10**8, 10**7))), tf.int32)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    "map_ids",
    [
        lambda ids: tf.ensure_shape(tf.numpy_function(_out_of_memory, [ids], tf.int32), ids.shape),
        pytest.param(_allocate, marks=pytest.mark.slow),
    ],
    ids=["error", "allocation"],
)
def test_memory_that_runs_out_is_named(model, tmp_path, map_ids):
    dataset = batches(3, 16).map(lambda inputs, labels: (inputs | {"token_ids": map_ids(inputs["token_ids"])}, labels))
    with pytest.raises(ValueError, match=r"Memory was not enough for a batch of 3 rows of 16 tokens. Make the"):
        tiny.train(model, lambda start_step: dataset, 2, tmp_path)


def test_other_errors_pass():
    for error in (KeyError("a"), tf.errors.InvalidArgumentError(None, None, "a shape")):
        with pytest.raises(type(error)), memory_errors(3):
            raise error
    with pytest.raises(ValueError, match="a batch of 3 rows. Make"), memory_errors(3):
        np.zeros((10**9, 10**9))


@pytest.mark.usefixtures("eagerly")
def test_damaged_records_end_the_run(tmp_path):
    """A shard that is damaged after the run began: one plain error that names it."""
    from helpers.tiny_corpus import make_documents, make_tokenizer

    from kbert.corpus.write_records import write_records
    from kbert.pretraining.dataset import pretraining_dataset

    tokenizer = make_tokenizer()
    write_records(make_documents(60), tokenizer, tmp_path / "records", held_out=0.0)
    sizes = {"num_layers": 1, "hidden_dim": 12, "num_heads": 3, "intermediate_dim": 20, "max_sequence_length": 16}
    model = kbert.BertPretrainer(kbert.BertConfig(vocabulary_size=tokenizer.vocabulary_size, **sizes))
    model.compile("adam")
    shard = tmp_path / "records" / "train-00000.tokens"

    def make_dataset(start_step):
        dataset = pretraining_dataset(tmp_path / "records", tokenizer, batch_size=4, sequence_length=16)
        content = bytearray(shard.read_bytes())
        content[7] ^= 1
        shard.write_bytes(content)
        return dataset

    with pytest.raises(ValueError, match=r"^\S*train-00000.tokens is damaged: its SHA-256[^\n]*$"):
        tiny.train(model, make_dataset, 2, tmp_path / "run")


def test_frozen_layers_keep_nothing_for_the_gradient(monkeypatch):
    monkeypatch.setattr(memory, "machine_memory", lambda: 8 * 16 * (4 * 12 + 20) * 4)  # 1 layer, 8 rows
    model = kbert.BertClassifier(tiny_config(), num_labels=2)
    model.encoder.embeddings.trainable = model.encoder.blocks[0].trainable = False
    check_batch_memory(model, 8, 16)
    with pytest.raises(ValueError, match="9 rows"):
        check_batch_memory(model, 9, 16)
    model.encoder.trainable = False
    check_batch_memory(model, 10**6, 16)


def page_faults(how):
    command = [sys.executable, "-c", FAULTS, how]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if "another C library" in ran.stderr:
        pytest.skip("this Python does not run on glibc")
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


@pytest.mark.slow  # speed alone
def test_a_large_buffer_is_mapped_once():
    assert page_faults("keep") < page_faults("as it is") / 10


def test_settings_of_the_environment_are_left_alone(monkeypatch):
    from kbert.training.memory import keep_freed_memory

    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")
    assert keep_freed_memory() is False
