"""Models called on token ids alone, and on lists: mask and segments follow from the ids."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from kbert import BertClassifier, BertConfig, BertEncoder, BertMultipleChoice, BertTagger

CONFIG = BertConfig.from_size("tiny", vocabulary_size=50, num_layers=1, hidden_dropout=0.0, attention_dropout=0.0)
IDS = np.array([[2, 7, 8, 3], [2, 9, 3, 0], [2, 5, 6, 3], [2, 3, 0, 0]], "int32")
FULL = {"token_ids": IDS, "segment_ids": 0 * IDS, "padding_mask": IDS != 0}
CLASSES = [0, 1, 0, 1]


@pytest.fixture(scope="module")
def model():
    model = BertClassifier(CONFIG)
    model.compile()
    return model


@pytest.mark.parametrize("batch", [IDS, IDS.tolist(), list(IDS), {"token_ids": IDS}, {"token_ids": IDS.tolist()}])
def test_mask_and_segments_may_be_left_out(model, batch):
    expected = np.asarray(model(FULL)["logits"])
    np.testing.assert_array_equal(np.asarray(model(batch)["logits"]), expected)
    np.testing.assert_allclose(model.predict(batch, verbose=0)["logits"], expected, atol=1e-6)


def test_they_may_be_left_out_where_keras_trains_without_a_call(model):
    """As its trainer on JAX does."""
    weights = [[v.value for v in part] for part in (model.trainable_variables, model.non_trainable_variables)]
    outputs, _ = model.stateless_call(*weights, IDS)
    np.testing.assert_allclose(outputs["logits"], model(FULL)["logits"], atol=1e-6)


def test_shapes_stay_static_in_other_graphs(model):
    ids = keras.Input((4,), dtype="int32")
    outer = keras.Model(ids, BertEncoder(CONFIG)(ids)["sequence_output"])
    assert outer.output_shape == (None, 4, 128)
    assert outer.predict(IDS, verbose=0).shape == (4, 4, 128)


def test_autograph_leaves_a_model_alone_in_a_function_of_the_user(model, caplog, capfd):
    function = tf.function(lambda ids: model(ids)["logits"], input_signature=[tf.TensorSpec([None, 4], tf.int32)])
    assert function.get_concrete_function().output_shapes == (None, 2)
    assert "AutoGraph" not in caplog.text and "Logging error" not in capfd.readouterr().err


def test_choices_without_tokens_are_absent():
    choices = np.stack([IDS, 0 * IDS], axis=1)  # [B, 2, S]
    model = BertMultipleChoice(CONFIG)
    model.compile()
    with pytest.raises(ValueError, match="choices that are there"):
        model.fit(choices, CLASSES, verbose=0)


@pytest.mark.parametrize("labels", [list(np.array(CLASSES)), list(tf.constant(CLASSES))])
@pytest.mark.usefixtures("eagerly")
def test_labels_in_a_list_of_numpy_or_tensor_scalars(model, labels):
    model.fit(IDS, labels, verbose=0)
    model.train_on_batch(IDS, labels, [1.0, 0.0, 1.0, 1.0])


@pytest.mark.usefixtures("eagerly")
def test_labels_of_tokens_in_a_list_of_arrays():
    tagger = BertTagger(CONFIG, 3)
    tagger.compile()
    tagger.fit(IDS, list(np.ones((4, 4), "int32")), verbose=0)


def test_one_hot_labels_get_a_hint(model):
    with pytest.raises(ValueError, match=r"shape \(4, 2\)\. One-hot\? Give labels\.argmax"):
        model.fit(IDS, np.eye(2)[CLASSES], verbose=0)


def test_rows_of_unequal_lengths_are_named(model):
    with pytest.raises(ValueError, match=r"rows of one length.*Received: rows of \[1, 2\] numbers"):
        model.predict([[2, 3], [2]], verbose=0)
