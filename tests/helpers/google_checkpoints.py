"""What Google's own code left in golden/: its checkpoints, and what it computed from them."""

import pathlib

import numpy as np

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
ORIGINAL = GOLDEN / "google_pretraining"
BATCH_KEYS = ("token_ids", "segment_ids", "padding_mask")


def expected(task):
    """The values of a task, by name."""
    with np.load(GOLDEN / "google_values.npz") as values:
        return {k.removeprefix(task + "/"): values[k] for k in values if k.startswith(task + "/")}


def features(batch, *more):
    """What a model takes of a batch."""
    return {name: batch[name] for name in (*BATCH_KEYS, *more)}
