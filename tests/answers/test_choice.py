"""The best choice and the probabilities; what is no choice has none."""

import numpy as np
import pytest
import tensorflow as tf

from kbert.answers.choice import ChoiceAnswers

LOGITS = [[0.0, 3.0, 1.0], [2.0, 2.0, 9.0], [-5.0, 7.0, 7.0], [1.0, 1.0, 1.0]]
THERE = [[True, True, True], [True, True, False], [True, False, False], [False, False, False]]


def test_the_best_of_what_is_there():
    mask = tf.constant(THERE)[:, :, None] & tf.constant([True, False])
    answers = ChoiceAnswers()({"logits": tf.constant(LOGITS)}, {"padding_mask": mask})
    assert answers["choice"].numpy().tolist() == [1, 0, 0, -1]  # of equally good ones the first
    powers = np.exp(LOGITS) * THERE
    expected = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-9)
    np.testing.assert_allclose(answers["probabilities"], expected, atol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
def test_no_rows_and_no_choices(shape):
    answers = ChoiceAnswers()({"logits": tf.zeros(shape)}, {"padding_mask": tf.zeros((*shape, 4), tf.bool)})
    assert answers["choice"].numpy().tolist() == [-1] * shape[0]
    assert answers["probabilities"].shape == shape
