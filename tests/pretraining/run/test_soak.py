"""A long pre-training of a very small model: neither memory nor open files grow."""

import gc
import os

import keras
import pytest
from helpers.tiny_corpus import make_documents, make_pretrainer, make_tokenizer

import kbert
from kbert.corpus.write_records import write_records

STEPS, EVERY = 10_000, 500
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="Linux")]


class Usage(keras.callbacks.Callback):
    """Resident memory in MiB and the number of open files, after each checkpoint but the last."""

    def __init__(self):
        super().__init__()
        self.found = []

    def on_epoch_end(self, epoch, logs=None):
        gc.collect()
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
        self.found.append((pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(os.listdir("/proc/self/fd"))))


def test_ten_thousand_steps_take_no_more_than_five_thousand(tmp_path):
    write_records(make_documents(300), make_tokenizer(), tmp_path / "records", shard_tokens=2000, held_out=0.1)
    usage = Usage()
    kbert.pretrain(
        tmp_path / "records",
        init=make_pretrainer(16),
        steps=STEPS,
        batch_size=4,
        sequence_length=16,
        evaluation_batches=2,
        checkpoint_every=EVERY,
        log_every=EVERY,
        callbacks=[usage],
        output=tmp_path / "run",
    )
    assert len(usage.found) == STEPS // EVERY
    (_, files), (memory, _), (memory_at_end, files_at_end) = (usage.found[place] for place in (2, 9, -1))
    assert files_at_end <= files, usage.found
    # 15 MiB in 5,000 steps; before, in a process of many tests, memory that others freed may be taken at once.
    assert memory_at_end < memory + 15, usage.found
