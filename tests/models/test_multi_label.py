"""Multi-label classification: a sigmoid each, from the loss to the stored thresholds."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.batches import BATCH, config, plain_batch
from helpers.tiny_bert import TEXTS, randomise, tiny_config, tiny_tokenizer

import kbert
from kbert.answers.labels import MultiLabelAnswers
from kbert.models.average import average_models
from kbert.optim import MultiLabelAccuracy, MultiLabelLoss

LABELS = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 0]])
LOGITS = np.random.default_rng(0).normal(0, 4, (BATCH, 3)).astype("float32")


def test_loss_and_accuracy_are_those_of_keras_and_leave_out_what_is_not_known():
    expected = keras.losses.BinaryCrossentropy(from_logits=True)(LABELS, LOGITS)
    np.testing.assert_allclose(MultiLabelLoss()(LABELS, LOGITS), expected, rtol=1e-5)
    accuracy = MultiLabelAccuracy()
    accuracy.update_state(LABELS, LOGITS)
    assert float(accuracy.result()) == pytest.approx(np.mean((LOGITS > 0) == (LABELS > 0)))
    labels, weights = LABELS.astype("float32"), np.array([2.0, 1, 0, 1, 1])
    labels[0, 1], labels[2, 2] = -1, 7  # not known, and wrong in a row that does not count
    nll = np.log1p(np.exp(np.where(LABELS > 0, -LOGITS, LOGITS).astype("float64")))
    counts = weights[:, None] * (labels != -1)
    expected = np.sum(nll * counts) / np.sum(counts)
    np.testing.assert_allclose(MultiLabelLoss()(labels, LOGITS, weights), expected, rtol=1e-5)
    assert np.isnan(MultiLabelLoss()(labels, LOGITS))


@pytest.mark.usefixtures("eagerly")
def test_thresholds_are_stored_and_served(tmp_path):
    model = randomise(kbert.BertClassifier(tiny_config(num_layers=1), 3, multi_label=True), scale=0.3)
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["a", "b", "c"])
    answers = pipeline.predict(TEXTS)
    np.testing.assert_array_equal(answers["is_on"], answers["probabilities"] > 0.5)
    assert not np.allclose(answers["probabilities"].sum(-1), 1.0)
    thresholds = [float(np.median(column)) for column in answers["probabilities"].T]
    pipeline = kbert.build_pipeline(model, tiny_tokenizer(), labels=["a", "b", "c"], thresholds=thresholds)
    expected = answers["probabilities"] > np.float32(thresholds)
    np.testing.assert_array_equal(pipeline.predict(TEXTS)["is_on"], expected)
    assert 0 < expected.sum() < expected.size
    rows = list(pipeline.answers.to_dicts(pipeline.predict(TEXTS)))
    assert [row["labels"] for row in rows] == [[n for n, on in zip("abc", row, strict=True) if on] for row in expected]
    kbert.save_pretrained(pipeline, tmp_path / "it")
    pipeline.save(tmp_path / "it.keras")
    loaded = kbert.load_pretrained(tmp_path / "it")
    assert loaded.multi_label and loaded.pretrained.settings.task.thresholds == pytest.approx(thresholds)
    for again in (kbert.build_pipeline(loaded), keras.models.load_model(tmp_path / "it.keras")):
        np.testing.assert_array_equal(again.predict(TEXTS)["is_on"], expected)
    np.testing.assert_array_equal(
        kbert.build_pipeline(loaded, thresholds=None).predict(TEXTS)["is_on"], answers["is_on"]
    )
    served = tf.saved_model.load(kbert.export(pipeline, tmp_path / "serve")).signatures["serving_default"]
    np.testing.assert_array_equal(served(text=tf.constant(TEXTS))["is_on"], expected)


def test_an_ensemble_takes_the_mean_of_the_probabilities():
    models = [randomise(kbert.BertClassifier(config(num_layers=1), 3, multi_label=True), seed=n) for n in (1, 2)]
    each = [1 / (1 + np.exp(-np.asarray(model(plain_batch())["logits"], "float64"))) for model in models]
    found = 1 / (1 + np.exp(-np.asarray(average_models(models)(plain_batch())["logits"], "float64")))
    np.testing.assert_allclose(found, np.mean(each, axis=0), rtol=1e-5)
    with pytest.raises(ValueError, match="expected models of one task"):
        average_models([models[0], kbert.BertClassifier(config(num_layers=1), 3)])


def test_what_is_refused():
    for thresholds in ([0.5], [0.5, 1.0]):
        with pytest.raises(ValueError, match=r"`thresholds` must be 2 numbers in \(0, 1\)"):
            MultiLabelAnswers(["a", "b"], thresholds)
