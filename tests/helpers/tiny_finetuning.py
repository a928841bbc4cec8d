"""A fine-tuning short enough for tests: its task, options and rows."""

import types

import numpy as np

import kbert
from helpers.tiny_directory import sentences
from kbert.finetuning.example_sets import ExampleSets
from kbert.finetuning.starting_pipeline import starting_pipeline
from kbert.keras_compat import seeded

TASK = kbert.tasks.Classification()
QUICK = dict(batch_size=8, sequence_length=9, learning_rate=2e-3, steps=12, evaluate_every=3, checkpoint_every=4)
SHORT = QUICK | {"steps": 4, "evaluate_every": 2}
NO_DEV = QUICK | {"evaluate_every": None}  # which only evaluations on dev use
ROWS, DEV = sentences(30), sentences(9, start=30)


def start(
    source, task, train, dev=None, *, more_dev=None, sequence_length=9, dropout=None, random_weights=False, seed=0
) -> types.SimpleNamespace:
    """What a fine-tuning starts from: `pipeline`, `task`, and the examples `train` and, by suffix, `dev`."""
    sets = ExampleSets.read(task, train, dev, more_dev or {})
    with seeded(seed):
        pipeline, task, sets = starting_pipeline(source, task, sets, sequence_length, dropout, random_weights)
    return types.SimpleNamespace(pipeline=pipeline, task=task, train=sets.train, dev=sets.dev)


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
