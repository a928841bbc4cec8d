"""Packed rows in `kbert.pretrain`: where they are chosen, and that the model of the run is one for plain rows."""

import logging

import pytest
from helpers.pretraining_fields import corpus_data
from helpers.tiny_corpus import make_tokenizer

SHORT = {"steps": 2, "batch_size": 4, "sequence_length": 64, "evaluation_batches": 1}


def data_of(source, **given):
    return corpus_data(source, make_tokenizer(), **SHORT | given)


def test_short_pairs_are_packed_and_full_rows_are_not(records, caplog):
    with caplog.at_level(logging.INFO, "kbert"):
        chosen = data_of(records)
        assert chosen.num_parts is None and chosen.choose_packing() is True and chosen.num_parts == 4
        # No two pairs of at least 5 tokens fit into 8.
        assert data_of(records, sequence_length=8).choose_packing() is False
    first, second = (
        record.getMessage() for record in caplog.records if "of a plain row is text" in record.getMessage()
    )
    assert first.startswith("packed rows: ") and second.startswith("plain rows: ")
    caplog.clear()
    for given in (True, False):
        assert data_of(records, packed=given).choose_packing() is given
    assert not [record for record in caplog.records if record.name == "kbert"]


def test_rows_to_fill_are_packed_whether_it_pays_or_not(records):
    assert data_of(records, sequence_length=8, fill_rows=True).choose_packing() is True


def test_too_short_rows_are_named(records):
    with pytest.raises(ValueError, match="`sequence_length` must be at least 5 here. Received: 4"):
        data_of(records, sequence_length=4).choose_packing()


def test_phases_have_one_layout(records):
    """A long phase of short pairs decides for a little one of full rows, and all have the parts of the longest rows."""
    phases = {"sequence_length": 112, "steps": 10, "phases": [(8, 0.1), (112, 0.9)]}
    data = data_of(records, **phases)
    assert data.choose_packing() is True and data.num_parts == 7
    assert data_of(records, sequence_length=8, phases=[(8, 1.0)]).choose_packing() is False
