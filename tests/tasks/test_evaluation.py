"""A model's scores: the same as computed by hand, whatever the batch size."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.tiny_directory import VOCABULARY, sentences

from kbert import BertClassifier, BertConfig, BertRegressor, BertTokenizer
from kbert.data.text_preprocessor import TextPreprocessor
from kbert.tasks.evaluation import evaluate
from kbert.tasks.labelled_text import LabelledText

CONFIG = BertConfig(
    vocabulary_size=len(VOCABULARY), num_layers=1, hidden_dim=12, num_heads=3, intermediate_dim=20,
    max_sequence_length=16, initializer_stddev=0.3,
)  # fmt: skip
TEXTS = [text for text, _ in sentences(11)]


@pytest.fixture(scope="module")
def preprocessor():
    return TextPreprocessor(BertTokenizer(VOCABULARY), sequence_length=9)


@pytest.mark.parametrize("batch_size", [2, 4, 11, 16])
def test_classification(preprocessor, batch_size):
    keras.utils.set_random_seed(2)
    model = BertClassifier(CONFIG, num_labels=3)
    labels = np.arange(11, dtype="int32") % 3
    scores = evaluate(model, preprocessor, LabelledText(TEXTS, labels), ["accuracy", "macro_f1"], batch_size=batch_size)
    logits = model(preprocessor({"text": tf.constant(TEXTS)}))["logits"]
    nll = keras.ops.convert_to_numpy(keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True))
    assert scores["examples"] == 11
    assert scores["loss"] == pytest.approx(nll.mean(), abs=1e-5)
    assert scores["accuracy"] == np.mean(np.argmax(logits, axis=-1) == labels)
    assert set(scores) == {"examples", "loss", "accuracy", "macro_f1"}


def test_regression(preprocessor):
    model = BertRegressor(CONFIG)
    labels = np.linspace(0, 5, 11, dtype="float32")
    scores = evaluate(model, preprocessor, LabelledText(TEXTS, labels), ["pearson"], batch_size=4)
    predictions = keras.ops.convert_to_numpy(model(preprocessor({"text": tf.constant(TEXTS)}))["score"])
    assert scores["loss"] == pytest.approx(np.mean((predictions - labels) ** 2), abs=1e-5)
    assert scores["pearson"] == pytest.approx(np.corrcoef(predictions, labels)[0, 1], abs=1e-5)


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_outside_the_range_is_an_error(preprocessor, label):
    with pytest.raises(ValueError, match=rf"must be in \[0, 3\). Received: \[{label}\]"):
        evaluate(BertClassifier(CONFIG, 3), preprocessor, LabelledText(["a"], np.array([label])), ["accuracy"])
