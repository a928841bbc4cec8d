"""A fine-tuning short enough for tests: its task, options and rows."""

import traceback
import types
from unittest import mock

import numpy as np

import kbert
from helpers.tiny_directory import sentences

TASK = kbert.tasks.Classification()
QUICK = dict(batch_size=8, sequence_length=9, learning_rate=2e-3, steps=12, evaluate_every=3, checkpoint_every=4)
SHORT = QUICK | {"steps": 4, "evaluate_every": 2}
NO_DEV = QUICK | {"evaluate_every": None}  # which only evaluations on dev use
ROWS, DEV = sentences(30), sentences(9, start=30)


class _Ready(BaseException):
    """The training would begin."""


def prepare(*arguments, **options) -> types.SimpleNamespace:
    """The local variables of `kbert.finetune` when its training would begin: `pipeline`, `data`, `run` …

    `train`, `dev` and `more_dev` are the examples with labels as numbers.
    """
    with mock.patch("kbert.training.loop.train", side_effect=_Ready):
        try:
            kbert.finetune(*arguments, **options)
        except _Ready as error:
            frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    code = kbert.finetune.__wrapped__.__code__
    values = next(frame.f_locals for frame in frames if frame.f_code is code)
    return types.SimpleNamespace(**values | vars(values["sets"]))


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
