"""A fine-tuning short enough for tests: its task, options and rows."""

import numpy as np

import kbert
from helpers.tiny_directory import sentences

TASK = kbert.tasks.Classification()
QUICK = dict(batch_size=8, sequence_length=9, learning_rate=2e-3, checkpoint_every=4, steps=12, evaluate_every=3)
SHORT = QUICK | {"steps": 4, "evaluate_every": 2}
NO_DEV = QUICK | {"evaluate_every": None}  # which only evaluations on dev use
ROWS, DEV = sentences(30), sentences(9, start=30)


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
