"""A long pre-training of a very small model: neither memory nor open files grow."""

import gc
import os

import keras
import pytest
from helpers.run_python import run_python
from helpers.tiny_corpus import make_documents, make_pretrainer, make_tokenizer

import kbert
from kbert.corpus.write_records import write_records

STEPS, EVERY = 10_000, 500
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="Linux")]


class Usage(keras.callbacks.Callback):
    """Resident memory in MiB and the number of open files, before the first step and after each checkpoint."""

    def __init__(self):
        super().__init__()
        self.found = []

    def on_epoch_end(self, epoch, logs=None):
        gc.collect()
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
        self.found.append((pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(os.listdir("/proc/self/fd"))))


def train(directory):
    write_records(make_documents(300), make_tokenizer(), directory / "records", shard_tokens=2000, held_out=0.1)
    usage = Usage()
    kbert.pretrain(
        directory / "records",
        init=make_pretrainer(16),
        steps=STEPS,
        batch_size=4,
        sequence_length=16,
        evaluation_batches=2,
        checkpoint_every=EVERY,
        log_every=EVERY,
        callbacks=[usage],
        output=directory / "run",
    )
    return usage.found


# In a process of its own: one of many tests may take at once what others have freed.
TRAIN = """
import json, pathlib, runpy, sys

print(json.dumps(runpy.run_path(sys.argv[1])["train"](pathlib.Path(sys.argv[2]))))
"""


def test_ten_thousand_steps_take_no_more_than_a_thousand(tmp_path):
    _, *found = run_python(TRAIN, __file__, tmp_path)  # the first before step 1
    assert len(found) == STEPS // EVERY
    (memory, files), (memory_halfway, _), (memory_at_end, files_at_end) = found[2], found[9], found[-1]
    assert files_at_end <= files, found
    assert memory_at_end < memory + 30 and memory_at_end < memory_halfway + 15, found
