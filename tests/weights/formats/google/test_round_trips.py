"""Google's checkpoints: those its own code wrote, round trips, and what the format cannot hold."""

import json

import keras
import numpy as np
import pytest
from golden.google_make import LABELS, make_batches
from helpers.google_checkpoints import GOLDEN, ORIGINAL, expected, features
from helpers.stored_models import assert_same_model, load, make_model, save

from kbert.weights.diagnostics.parity import measure_parity


def close(found, wanted, atol=1e-5):
    np.testing.assert_allclose(keras.ops.convert_to_numpy(found), wanted, rtol=0, atol=atol)


# What Google's code wrote.


def test_the_originals_checkpoint_computes_the_same():
    values, batch = expected("pretraining"), make_batches(1)[0]
    model = load(ORIGINAL)
    assert model.task == "pretraining" and model.config.activation == "gelu_tanh"
    outputs = model(features(batch, "mask_positions"), training=False)
    close(keras.ops.log_softmax(outputs["mlm_logits"]), values["mlm_log_probs"])
    close(keras.ops.log_softmax(outputs["nsp_logits"]), values["nsp_log_probs"])
    encoder = load(ORIGINAL, task="encoder", outputs=("hidden_states", "pooled_output"))
    outputs = encoder(features(batch), training=False)
    close(keras.ops.stack(outputs["hidden_states"]), values["hidden_states"])  # padded rows too
    close(outputs["pooled_output"], values["pooled_output"])


def test_the_originals_classifier_and_squad_heads():
    batch = features(make_batches(1)[0])
    classifier = load(GOLDEN / "google_classifier")
    assert (classifier.task, classifier.num_labels) == ("classification", LABELS)
    close(classifier(batch, training=False)["logits"], expected("classifier")["logits"])
    span = load(GOLDEN / "google_squad")
    assert span.task == "span" and span.encoder.pooler is not None
    outputs = span(batch, training=False)
    close(outputs["start_logits"], expected("squad")["start_logits"])
    close(outputs["end_logits"], expected("squad")["end_logits"])


def test_parity_needs_no_other_library():
    report = measure_parity(load(ORIGINAL), ORIGINAL)
    assert set(report.differences) == {
        *(f"hidden_states/{i}" for i in range(3)),
        "pooled_output",
        "mlm_logits",
        "nsp_logits",
    }
    assert max(report.differences.values()) < 1e-5 and min(report.largest.values()) > 0.1
    assert len(report.lines()) == 7 and json.dumps(report.to_dict())


def test_parity_sees_a_wrong_weight():
    model = load(ORIGINAL)
    kernel = next(v for v in model.weights if v.path == "encoder_block_1/attention/query/kernel")
    kernel.assign(keras.ops.transpose(kernel))
    report = measure_parity(model, ORIGINAL)
    assert report.differences["hidden_states/1"] < 1e-5 < 1e-3 < report.differences["hidden_states/2"]


# Round trips.

HELD = (
    "encoder",
    "pretraining",
    "masked_lm with pooler",
    "next_sentence",
    "classification",
    "regression",
    "span with pooler",
)


ALIKE = ("next_sentence", "regression")  # pretraining and classification have their variables


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in ALIKE else ()) for n in HELD])
def test_round_trip(name, tmp_path):
    activation = {"encoder": "relu", "classification": "tanh"}.get(name, "gelu_tanh")
    model = make_model(name, activation=activation, hidden_dropout=0.3, attention_dropout=0.2, num_segments=3)
    save(model, tmp_path / "out", "google")
    loaded = load(tmp_path / "out")
    assert_same_model(loaded, model)
    report = measure_parity(loaded, tmp_path / "out")
    assert max(report.differences.values()) < 1e-5
    save(loaded, tmp_path / "again", "google")
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "again").iterdir()
    }


@pytest.mark.parametrize(
    "name,fields,reason",
    [
        ("encoder", {"activation": "gelu_erf"}, "no name for it, only for gelu_tanh"),
        ("encoder", {"activation": "silu"}, "cannot hold activation='silu'"),
        ("encoder", {"layer_norm_epsilon": 1e-5}, "cannot hold layer_norm_epsilon=1e-05.*means 1e-12"),
        ("encoder", {"causal": True}, "cannot hold causal=True"),
        ("encoder without pooler", {}, "without pooler: BertModel in its modeling.py always has one"),
        ("masked_lm", {}, "without pooler"),
        ("pretraining, untied", {}, "untied decoder"),
        ("masked_lm as KerasHub's", {}, "masked-LM head with activation and LayerNorm epsilon"),
        ("tagging", {}, "tagging head"),
        ("multiple_choice", {}, "multiple-choice head"),
    ],
)
def test_what_it_cannot_hold_is_refused(name, fields, reason, tmp_path):
    with pytest.raises(ValueError, match=f'format="google".*{reason}'):
        save(make_model(name, **fields), tmp_path / "out", "google")
    assert not list(tmp_path.iterdir())
