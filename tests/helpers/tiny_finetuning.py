"""A fine-tuning short enough for tests: its task, options and rows."""

import numpy as np

import kbert
from helpers.tiny_directory import sentences
from kbert.finetuning.run_finetuning import Finetuning

TASK = kbert.tasks.Classification()
OFTEN = {"checkpoint_every": 4}
QUICK = dict(batch_size=8, sequence_length=9, learning_rate=2e-3, steps=12, evaluate_every=3, bookkeeping=OFTEN)
SHORT = QUICK | {"steps": 4, "evaluate_every": 2}
NO_DEV = QUICK | {"evaluate_every": None}  # which only evaluations on dev use
ROWS, DEV = sentences(30), sentences(9, start=30)


def prepare(*arguments, **options) -> Finetuning:
    """A fine-tuning that is ready to start."""
    return Finetuning(kbert.finetune.arguments(*arguments, **options))


def calling(callbacks) -> dict:
    """These callbacks, and the checkpoints of `QUICK`."""
    return {"bookkeeping": OFTEN | {"callbacks": callbacks}}


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
