"""Packed rows give what the same sequences give in rows of their own."""

import numpy as np
import pytest
from helpers.batches import BATCH, LENGTH, PARTS, config, packed_batch

from kbert.models.encoder import BertEncoder
from kbert.models.pretrainer import BertPretrainer

TOLERANCE = 1e-5


def separate(packed):
    """Every part of every row as a row of its own: the batch, and (row, part, its places in the packed row) of each."""
    owners = []
    for row in range(BATCH):
        for part in range(1, PARTS + 1):
            places = np.flatnonzero(packed["part_ids"][row] == part)
            if len(places):
                owners.append((row, part, places))
    batch = {
        "token_ids": np.zeros((len(owners), LENGTH), "int32"),
        "segment_ids": np.zeros((len(owners), LENGTH), "int32"),
        "padding_mask": np.zeros((len(owners), LENGTH), bool),
    }
    for i, (row, _, places) in enumerate(owners):
        batch["token_ids"][i, : len(places)] = packed["token_ids"][row, places]
        batch["segment_ids"][i, : len(places)] = packed["segment_ids"][row, places]
        batch["padding_mask"][i, : len(places)] = True
    return batch, owners


def twins(causal, model_class=BertEncoder, **arguments):
    """A model for packed rows and one for plain rows, with the same weights, large enough to matter."""
    packed_model = model_class(config(causal=causal), num_parts=PARTS, **arguments)
    plain_model = model_class(config(causal=causal), **arguments)
    rng = np.random.default_rng(6)
    packed_model.set_weights([rng.normal(size=w.shape) * 0.4 for w in packed_model.get_weights()])
    plain_model.set_weights(packed_model.get_weights())
    return packed_model, plain_model


def assert_parts_are_rows(actual, expected, owners, of_tokens, of_parts):
    actual, expected = ({name: np.array(value) for name, value in one.items()} for one in (actual, expected))
    for i, (row, part, places) in enumerate(owners):
        found, row_alone = actual[of_tokens][row, places], expected[of_tokens][i, : len(places)]
        np.testing.assert_allclose(found, row_alone, atol=TOLERANCE)
        np.testing.assert_allclose(actual[of_parts][row, part - 1], expected[of_parts][i], atol=TOLERANCE)


@pytest.mark.parametrize("causal", [False, True])
def test_hidden_states_and_pooled_outputs(causal):
    packed_model, plain_model = twins(causal)
    packed, (batch, owners) = packed_batch(), separate(packed_batch())
    actual, expected = packed_model(packed), plain_model(batch)
    assert_parts_are_rows(actual, expected, owners, "sequence_output", "pooled_output")


def test_pretraining_logits():
    packed_model, plain_model = twins(causal=False, model_class=BertPretrainer)
    packed, (batch, owners) = packed_batch(), separate(packed_batch())
    everywhere = np.tile(np.arange(LENGTH, dtype="int32"), (BATCH, 1))
    actual = packed_model(packed | {"mask_positions": everywhere})
    expected = plain_model(batch | {"mask_positions": np.tile(np.arange(LENGTH, dtype="int32"), (len(owners), 1))})
    assert_parts_are_rows(actual, expected, owners, "mlm_logits", "nsp_logits")
