"""Packed rows in `kbert.pretrain`: where they are chosen, and that the model of the run is one for plain rows."""

import contextlib
import logging

import numpy as np
import pytest
import tensorflow as tf
from helpers.compare import assert_arrays_equal
from helpers.pretraining_fields import pretraining_fields, pretraining_settings
from helpers.run_eagerly import run_eagerly
from helpers.tiny_corpus import make_pretrainer, make_tokenizer

import kbert
from kbert.files import read_json
from kbert.pretraining.dataset import pretraining_dataset
from kbert.pretraining.run.corpus_data import CorpusData, choose_packing
from kbert.pretraining.run.run_pretraining import model_of_rows

SHORT = {"steps": 2, "batch_size": 4, "sequence_length": 64, "evaluation_batches": 1}


@pytest.fixture(scope="module")
def model():
    return make_pretrainer(64)


def settings_of(source, **given):
    return pretraining_settings(**pretraining_fields(source=source, vocabulary=None) | SHORT | given)


def test_short_pairs_are_packed_and_full_rows_are_not(records, caplog):
    with caplog.at_level(logging.INFO, "kbert"):
        chosen = choose_packing(settings_of(records), make_tokenizer())
        assert chosen.packed is True and chosen.to_dict() == settings_of(records, packed=True).to_dict()
        # No two pairs of at least 5 tokens fit into 8.
        assert choose_packing(settings_of(records, sequence_length=8), make_tokenizer()).packed is False
    first, second = (
        record.getMessage() for record in caplog.records if "of a plain row is text" in record.getMessage()
    )
    assert first.startswith("packed rows: ") and second.startswith("plain rows: ")
    caplog.clear()
    for given in (True, False):
        settings = settings_of(records, packed=given)
        assert choose_packing(settings, make_tokenizer()) is settings
    assert not [record for record in caplog.records if record.name == "kbert"]


def test_a_run_decides_by_its_records(records):
    data = CorpusData(settings_of(records))
    data.take_tokenizer(make_tokenizer())
    assert data.settings.to_dict()["packed"] is True


def test_rows_to_fill_are_packed_whether_it_pays_or_not(records):
    chosen = choose_packing(settings_of(records, sequence_length=8, fill_rows=True), make_tokenizer())
    assert chosen.packed is True and chosen.fill_rows is True


def test_too_short_rows_are_named(records):
    with pytest.raises(ValueError, match="`sequence_length` must be at least 5 here. Received: 4"):
        choose_packing(settings_of(records, sequence_length=4), make_tokenizer())


def test_phases_have_one_layout(records):
    """A long phase of short pairs decides for a little one of full rows, and all have the parts of the longest rows."""
    phases = {"sequence_length": None, "steps": 10, "phases": ["8:0.1", "112:0.9"]}
    chosen = choose_packing(settings_of(records, **phases), make_tokenizer())
    assert chosen.packed is True and chosen.num_parts == 7
    assert choose_packing(settings_of(records, sequence_length=None, phases=["8:1"]), make_tokenizer()).packed is False


def test_the_model_of_rows(records, model):
    assert model_of_rows(model, settings_of(records, packed=False)) is model
    view = model_of_rows(model, settings_of(records, packed=True))
    assert view.encoder.num_parts == 4 and model_of_rows(view, settings_of(records, packed=True)) is view
    assert model_of_rows(view, settings_of(records, packed=False)).encoder.num_parts is None


@pytest.mark.slow  # models/test_compile.py::test_a_step_is_traced_once
def test_a_step_on_packed_rows_is_traced(records, model):
    view = model_of_rows(model, settings_of(records, packed=True))
    view.compile()
    dataset = pretraining_dataset(records, make_tokenizer(), batch_size=4, sequence_length=64, packed=True)

    @tf.function
    def gradients(inputs, labels, weights):
        with tf.GradientTape() as tape:
            loss = view.compute_loss(inputs, labels, view(inputs, training=True), weights)
        return tape.gradient(loss, view.trainable_variables)

    found = gradients.get_concrete_function(*dataset.element_spec).structured_outputs
    assert len(found) == len(view.trainable_variables) and None not in found


@pytest.mark.slow  # test_a_packed_run_is_one_of_a_plain_model in test_two_phases.py; in graphs: above
@pytest.mark.parametrize("traced", [False, True])
def test_a_packed_run_has_a_plain_model(records, model, tmp_path, traced):
    before = model.get_weights()
    with contextlib.nullcontext() if traced else run_eagerly():
        run = kbert.pretrain(records, init=model, output=tmp_path / "run", learning_rate=0.01, **SHORT)
    assert read_json(tmp_path / "run" / "settings.json")["packed"] is True
    assert run.metrics["data"]["parts_per_sequence"] > 1.05 and run.metrics["data"]["padding_fraction"] < 0.2
    assert run.model is model and sorted(model.input) == ["mask_positions", "padding_mask", "segment_ids", "token_ids"]
    assert any(np.abs(one - other).max() > 1e-4 for one, other in zip(before, model.get_weights(), strict=True))
    with run_eagerly():
        assert run.pipeline.predict(["a [MASK] c"], verbose=0)["tokens"].shape[0] == 1
    again = kbert.load_pretrained(tmp_path / "run")
    assert_arrays_equal(again.get_weights(), model.get_weights())
    [batch] = pretraining_dataset(records, make_tokenizer(), batch_size=4, sequence_length=64, batches=1)
    with run_eagerly():
        expected = run.model.test_on_batch(*batch, return_dict=True)
        assert run.model.train_on_batch(*batch, return_dict=True).keys() == expected.keys()
    assert expected["loss"] > 0 and int(run.model.optimizer.iterations.numpy()) == 3  # after two on packed rows
