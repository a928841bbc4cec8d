"""Packed rows in `kbert.pretrain`: where they are chosen, and that the model of the run is one for plain rows."""

import logging

import pytest
from helpers.pretraining_fields import pretraining_fields, pretraining_settings
from helpers.tiny_corpus import make_pretrainer, make_tokenizer

from kbert.corpus.records import Records
from kbert.pretraining.run.corpus_data import CorpusData, choose_packing
from kbert.pretraining.run.run_pretraining import model_of_rows

SHORT = {"steps": 2, "batch_size": 4, "sequence_length": 64, "evaluation_batches": 1}


@pytest.fixture(scope="module")
def model():
    return make_pretrainer(64)


def settings_of(source, **given):
    return pretraining_settings(**pretraining_fields(source=source, vocabulary=None) | SHORT | given)


def choose(settings):
    return choose_packing(settings, make_tokenizer(), Records(settings.source))


def test_short_pairs_are_packed_and_full_rows_are_not(records, caplog):
    with caplog.at_level(logging.INFO, "kbert"):
        chosen = choose(settings_of(records))
        assert chosen.packed is True and chosen.to_dict() == settings_of(records, packed=True).to_dict()
        # No two pairs of at least 5 tokens fit into 8.
        assert choose(settings_of(records, sequence_length=8)).packed is False
    first, second = (
        record.getMessage() for record in caplog.records if "of a plain row is text" in record.getMessage()
    )
    assert first.startswith("packed rows: ") and second.startswith("plain rows: ")
    caplog.clear()
    for given in (True, False):
        settings = settings_of(records, packed=given)
        assert choose(settings) is settings
    assert not [record for record in caplog.records if record.name == "kbert"]


def test_a_run_decides_by_its_records(records):
    data = CorpusData(settings_of(records))
    data.take_tokenizer(make_tokenizer())
    data.choose_packing()
    assert data.settings.to_dict()["packed"] is True


def test_rows_to_fill_are_packed_whether_it_pays_or_not(records):
    chosen = choose(settings_of(records, sequence_length=8, fill_rows=True))
    assert chosen.packed is True and chosen.fill_rows is True


def test_too_short_rows_are_named(records):
    with pytest.raises(ValueError, match="`sequence_length` must be at least 5 here. Received: 4"):
        choose(settings_of(records, sequence_length=4))


def test_phases_have_one_layout(records):
    """A long phase of short pairs decides for a little one of full rows, and all have the parts of the longest rows."""
    phases = {"sequence_length": None, "steps": 10, "phases": ["8:0.1", "112:0.9"]}
    chosen = choose(settings_of(records, **phases))
    assert chosen.packed is True and chosen.num_parts == 7
    assert choose(settings_of(records, sequence_length=None, phases=["8:1"])).packed is False


def test_the_model_of_rows(records, model):
    assert model_of_rows(model, settings_of(records, packed=False)) is model
    view = model_of_rows(model, settings_of(records, packed=True))
    assert view.encoder.num_parts == 4 and model_of_rows(view, settings_of(records, packed=True)) is view
    assert model_of_rows(view, settings_of(records, packed=False)).encoder.num_parts is None
