"""Packed = separate: the same pairs give the same losses, metrics and update, whether they share rows or not."""

import keras
import numpy as np
import pytest
from helpers.pretraining_batches import batches, dataset_of
from helpers.tiny_bert import tiny_config
from helpers.tiny_corpus import VOCABULARY

from kbert.models.pretrainer import BertPretrainer

S, P = 90, 14


@pytest.fixture(scope="module")
def held_out(records, tokenizer):
    """All pairs of the held-out documents as one batch of packed rows, and as one of plain rows."""
    options = {"sequence_length": S, "max_predictions": P, "evaluation": True, "batch_size": 1}
    packed, plain = (batches(dataset_of(records, tokenizer, packed=p, **options)) for p in (True, False))
    assert len(packed) < 0.9 * len(plain)
    return [keras.tree.map_structure(lambda *rows: np.concatenate(rows), *rows) for rows in (packed, plain)]


@pytest.fixture(scope="module")
def model():
    config = tiny_config(
        vocabulary_size=len(VOCABULARY), num_heads=2, max_sequence_length=S, hidden_dropout=0.0, attention_dropout=0.0
    )
    return BertPretrainer(config)


def updated(model, batch, packed):
    """Losses and metrics of a step of plain gradient descent, and the weights after it; those of the model stay."""
    before = model.get_weights()
    trained = model.with_parts(S // 16) if packed else model
    trained.compile(keras.optimizers.SGD(1.0))
    logs = trained.train_on_batch(*batch, return_dict=True)
    after = model.get_weights()
    model.set_weights(before)
    return {name: float(value) for name, value in logs.items()}, after


@pytest.mark.usefixtures("eagerly")
def test_packed_rows_train_as_separate_rows(held_out, model):
    rng = np.random.default_rng(6)
    model.set_weights([rng.normal(size=w.shape) * 0.2 for w in model.get_weights()])
    (packed_logs, packed), (logs, plain) = (
        updated(model, batch, is_packed) for batch, is_packed in zip(held_out, (True, False), strict=True)
    )
    assert packed_logs == pytest.approx(logs, rel=1e-5) and {"loss", "nsp_logits_loss"} <= set(logs)
    for one, other in zip(packed, plain, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)
    assert max(np.abs(one - before).max() for one, before in zip(packed, model.get_weights(), strict=True)) > 0.1


def test_a_view_for_packed_rows_has_the_same_variables_in_the_same_order(model):
    view = model.with_parts(3)
    assert [id(v) for v in view.variables] == [id(v) for v in model.variables]
    assert view.output["nsp_logits"].shape == (None, 3, 2) and view.encoder.num_parts == 3
    plain = view.with_parts(None)
    assert sorted(plain.input) == sorted(model.input) and plain.output["nsp_logits"].shape == (None, 2)
    model.encoder.blocks[0].trainable = False
    assert [v.trainable for v in view.variables] == [v.trainable for v in model.variables]
    model.encoder.blocks[0].trainable = True


def test_a_view_is_serialised_as_a_model_of_its_own(model, held_out):
    view = model.with_parts(S // 16)
    again = BertPretrainer.from_config(view.get_config())
    again.set_weights(view.get_weights())
    for name, value in view(held_out[0][0]).items():
        np.testing.assert_allclose(again(held_out[0][0])[name], value, atol=1e-6)
    single = BertPretrainer(model.config, next_sentence=False).with_parts(4)
    assert set(single.output) == {"mlm_logits"} and "part_ids" in single.input
