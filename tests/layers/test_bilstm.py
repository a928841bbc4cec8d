"""The BiLSTM between encoder and head: Keras' own, and blind to padding."""

import keras
import numpy as np
import pytest

from kbert.layers.bilstm import BiLstm

X = np.random.default_rng(1).normal(size=(3, 6, 8)).astype("float32")
MASK = np.arange(6)[None] < np.array([6, 3, 1])[:, None]


@pytest.mark.parametrize("return_sequences", [True, False])
def test_equals_keras_bidirectional(return_sequences):
    layer = BiLstm(return_sequences)
    found = np.array(layer(X, MASK))
    lstm = keras.layers.LSTM(4, return_sequences=return_sequences)
    reference = keras.layers.Bidirectional(lstm)
    reference(X, mask=MASK)
    reference.set_weights(layer.get_weights())
    expected = np.array(reference(X, mask=MASK))
    real = MASK if return_sequences else np.ones(3, bool)
    np.testing.assert_allclose(found[real], expected[real], atol=1e-6)


@pytest.mark.parametrize("return_sequences", [True, False])
def test_padding_changes_nothing(return_sequences):
    layer = BiLstm(return_sequences)
    other = np.where(MASK[..., None], X, 7.0)
    before, after = np.array(layer(X, MASK)), np.array(layer(other, MASK))
    real = MASK if return_sequences else np.ones(3, bool)
    np.testing.assert_array_equal(before[real], after[real])
    shorter = np.array(layer(X[1:2, :3], MASK[1:2, :3]))  # the row without its padding
    np.testing.assert_allclose(shorter[0], before[1, :3] if return_sequences else before[1], atol=1e-6)


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match="even width. Received: 7"):
        BiLstm()(X[..., :7], MASK)
