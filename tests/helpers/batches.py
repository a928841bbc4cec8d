"""Small random batches with odd, mutually different sizes."""

import numpy as np

from kbert.config import BertConfig

SIZES = {
    "vocabulary_size": 37,
    "num_layers": 2,
    "hidden_dim": 12,
    "num_heads": 3,
    "intermediate_dim": 20,
    "max_sequence_length": 11,
}
BATCH, LENGTH, PREDICTIONS, PARTS, CHOICES, LABELS = 5, 7, 4, 3, 2, 6


def config(**fields):
    """A config without dropout, unless asked for."""
    return BertConfig(**SIZES | {"hidden_dropout": 0.0, "attention_dropout": 0.0} | fields)


def plain_batch(batch=BATCH, length=LENGTH, seed=0):
    """token_ids, segment_ids, padding_mask [B, S]; the first row is full."""
    rng = np.random.default_rng(seed)
    real = np.append(length, rng.integers(2, length, batch - 1))
    return {
        "token_ids": rng.integers(0, SIZES["vocabulary_size"], (batch, length)).astype("int32"),
        "segment_ids": rng.integers(0, 2, (batch, length)).astype("int32"),
        "padding_mask": np.arange(length)[None] < real[:, None],
    }


def pretraining_batch(**arguments):
    batch = plain_batch(**arguments)
    rng = np.random.default_rng(1)
    shape = (len(batch["token_ids"]), PREDICTIONS)
    return batch | {"mask_positions": rng.integers(0, LENGTH, shape).astype("int32")}


def packed_batch():
    """Rows of up to three parts, each with positions of its own; no row holds all three but the first."""
    batch = plain_batch()
    lengths = [(2, 3, 2), (4, 2), (7,), (1, 1), (3, 3)]
    part_ids, position_ids = np.zeros((BATCH, LENGTH), "int32"), np.zeros((BATCH, LENGTH), "int32")
    for row, parts in enumerate(lengths):
        flat_parts = np.repeat(np.arange(1, len(parts) + 1), parts)
        flat_positions = np.concatenate([np.arange(n) for n in parts])
        part_ids[row, : len(flat_parts)], position_ids[row, : len(flat_parts)] = flat_parts, flat_positions
    return batch | {"padding_mask": part_ids > 0, "part_ids": part_ids, "position_ids": position_ids}


def choice_batch():
    """[B, C, S]."""
    flat = plain_batch(BATCH * CHOICES)
    return {name: array.reshape((BATCH, CHOICES, LENGTH)) for name, array in flat.items()}


def labels_of(shape, high, seed=2):
    return np.random.default_rng(seed).integers(0, high, shape).astype("int32")
