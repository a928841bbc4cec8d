"""Choices that are not there: no score, no loss, no gradient."""

import keras
import numpy as np
import tensorflow as tf
from helpers.batches import choice_batch, config
from helpers.layer_harness import run_layer_test

from kbert.layers.choices import ABSENT, SplitChoices
from kbert.models.multiple_choice import BertMultipleChoice
from kbert.optim.losses import ClassificationLoss

SCORES = np.array([[0.5, 1.0, -2.0], [3.0, 0.0, 1.0]], "float32")
MASK = np.array([[[True, True], [False, False], [True, False]], [[True, True], [False, True], [False, False]]])


def test_it_is_a_layer(tmp_path):
    run_layer_test(SplitChoices, {}, (SCORES.reshape(6, 1), MASK.reshape(6, 1, 2)), tmp_path, paths=[])


def test_absent_choices_lose():
    expected = [[0.5, ABSENT, -2.0], [3.0, 0.0, ABSENT]]
    np.testing.assert_array_equal(SplitChoices()(SCORES.reshape(6, 1), MASK), np.array(expected, "float32"))


def test_a_padded_question_trains_as_it_would_alone():
    keras.utils.set_random_seed(3)
    model = BertMultipleChoice(config())
    plain = choice_batch()  # two choices
    padded = {name: np.concatenate([array, np.zeros_like(array)], axis=1) for name, array in plain.items()}  # four
    results = []
    for batch in (plain, padded):
        with tf.GradientTape() as tape:
            logits = model(batch)["logits"]
            loss = ClassificationLoss()(tf.constant([0, 1, 1, 0, 1]), logits)
        weights = [v.value for v in model.trainable_variables]
        results.append((logits[:, :2], loss, [tf.convert_to_tensor(g) for g in tape.gradient(loss, weights)]))
    assert np.all(logits[:, 2:] == ABSENT)
    for a, b in zip(*map(tf.nest.flatten, results), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
