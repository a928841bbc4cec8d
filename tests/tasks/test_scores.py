"""A model's scores: the same as computed by hand, whatever the batch size."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_bert import tiny_config
from helpers.tiny_directory import VOCABULARY, sentences

import kbert
from kbert.tasks.labelled_text import LabelledText
from kbert.tasks.scores import compare, evaluate, predict_scores

CONFIG = tiny_config(vocabulary_size=len(VOCABULARY), num_layers=1, max_sequence_length=16, initializer_stddev=0.3)
TEXTS = [text for text, _ in sentences(11)]


def pipeline_of(model, sequence_length=9):
    return kbert.build_pipeline(model, kbert.BertTokenizer(VOCABULARY), sequence_length=sequence_length)


def outputs_of(pipeline, texts=TEXTS):
    return pipeline.model(pipeline.preprocessor({"text": tf.constant(texts)}))


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("batch_size, static", [(2, False), (4, False), (11, True), (16, False)])
def test_classification(batch_size, static):
    keras.utils.set_random_seed(2)
    pipeline = pipeline_of(kbert.BertClassifier(CONFIG, num_labels=3))
    labels = np.arange(11, dtype="int32") % 3
    examples = LabelledText(TEXTS, labels)
    scores, predictions = evaluate(pipeline, examples, ["accuracy", "macro_f1"], batch_size=batch_size, static=static)
    logits = outputs_of(pipeline)["logits"]
    nll = keras.ops.convert_to_numpy(keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True))
    assert set(scores) == {"examples", "loss", "accuracy", "macro_f1", "labels"} and scores["examples"] == 11
    assert scores["loss"] == pytest.approx(nll.mean(), abs=1e-5)
    assert scores["accuracy"] == np.mean(np.argmax(logits, axis=-1) == labels)
    np.testing.assert_allclose(predictions, keras.ops.softmax(logits), atol=1e-5)


@pytest.mark.usefixtures("eagerly")
def test_regression():
    pipeline = pipeline_of(kbert.BertRegressor(CONFIG))
    labels = np.linspace(0, 5, 11, dtype="float32")
    scores, _ = evaluate(pipeline, LabelledText(TEXTS, labels), ["pearson"], batch_size=4)
    predictions = keras.ops.convert_to_numpy(outputs_of(pipeline)["score"])
    assert scores["loss"] == pytest.approx(np.mean((predictions - labels) ** 2), abs=1e-5)
    assert scores["pearson"] == pytest.approx(np.corrcoef(predictions, labels)[0, 1], abs=1e-5)


@pytest.mark.parametrize("label, message", [(-1, "from 0. Received: -1"), (3, r"in \[0, 3\). Received: \[3\]")])
def test_a_label_outside_the_range_is_an_error(label, message):
    pipeline = pipeline_of(kbert.BertClassifier(CONFIG, 3))
    with pytest.raises(ValueError, match=message):
        evaluate(pipeline, LabelledText(["a"], np.array([label])), ["accuracy"])


@pytest.mark.usefixtures("eagerly")
def test_scores_come_back_in_the_order_of_the_rows():
    keras.utils.set_random_seed(2)
    pipeline = pipeline_of(kbert.BertClassifier(CONFIG, num_labels=3), 16)
    texts = ["the " * (n % 13) + "kind film ." for n in range(29)]  # of many lengths
    received = predict_scores(pipeline, {"text": texts}, batch_size=4)
    np.testing.assert_allclose(received, keras.ops.softmax(outputs_of(pipeline, texts)["logits"]), atol=1e-6)
    assert len(np.unique(received.round(5), axis=0)) > 5  # else the order would not show


def test_comparing_survives_a_probability_of_zero():
    scores = compare(LabelledText(["a", "b"], np.array([0, 1])), np.array([[0.0, 1.0], [0.5, 0.5]]), ["accuracy"])
    assert np.isfinite(scores["loss"]) and scores["accuracy"] == 0.0
