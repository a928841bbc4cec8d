"""Models called on token ids alone, and on lists: mask and segments follow from the ids. Inputs that are refused."""

import copy
import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.wrong_values import wrong_inputs

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


def test_copies_and_files_mask_the_same_pad_id(tmp_path):
    model = BertClassifier(dataclasses.replace(CONFIG, pad_token_id=3))
    expected = np.asarray(model(FULL | {"padding_mask": IDS != 3})["logits"])
    model.save(tmp_path / "model.keras")
    rebuilt = BertClassifier.from_config(model.get_config())
    rebuilt.set_weights(model.get_weights())
    for same in (model, copy.deepcopy(model), keras.models.load_model(tmp_path / "model.keras"), rebuilt):
        assert same.config.pad_token_id == 3
        np.testing.assert_array_equal(np.asarray(same(IDS)["logits"]), expected)


def test_inputs_of_other_dimensions_are_named(model):
    message = (
        r"`token_ids` must be a dense array of 2 dimensions\. Received: {}.*keys \['padding_mask', 'segment_ids', 't"
    )
    rows = [
        ([IDS, 0 * IDS], r"an array of shape \(2, 4, 4\)"),
        (IDS[0], r"an array of shape \(4,\)"),
        (IDS[0].tolist(), r"an array of shape \(4,\)"),
        ({"token_ids": IDS[0]}, r"an array of shape \(4,\)"),
        (tf.ragged.constant([[2, 3], [2, 7, 3]]), "a RaggedTensor"),
    ]
    rows = [(inputs, message.format(received)) for inputs, received in rows]
    for call in (model, model.predict, model.predict_on_batch, lambda inputs: model.fit(inputs, CLASSES)):
        wrong_inputs(call, *rows)
    for inputs, message in rows[1:]:
        dataset = tf.data.Dataset.from_tensors((inputs, CLASSES))
        with pytest.raises(ValueError, match=message):
            model.fit(dataset)
    with pytest.raises(ValueError, match="`padding_mask` must be a dense array of 2 dimensions"):
        model.predict({"token_ids": IDS, "padding_mask": [1, 1, 1, 0]})
    with pytest.raises(ValueError, match="'padding_mask', 'segment_ids', 'token_ids'"):  # Keras' own
        model.predict((IDS, 0 * IDS))
    choices = BertMultipleChoice(CONFIG)
    with pytest.raises(ValueError, match=r"a dense array of 3 dimensions\. Received: an array of shape \(4, 4\)"):
        choices.predict(IDS)


def with_id(value, name="token_ids"):
    batch = {"token_ids": IDS.copy(), "segment_ids": 0 * IDS, "padding_mask": IDS != 0}
    batch[name][2, 1] = value
    return batch


OUTSIDE = [
    (with_id(-1), "`token_ids` must be from 0 to 49, where 0 is \\[PAD\\]. Received: -1 in row 2, position 1"),
    (with_id(-100)["token_ids"], "Received: -100 in row 2"),
    (with_id(50)["token_ids"].tolist(), "Received: 50 in row 2"),
    (with_id(2, "segment_ids"), "`segment_ids` must be from 0 to 1. Received: 2 in row 2, position 1"),
    (with_id(-1, "segment_ids"), "`segment_ids` must be from 0 to 1. Received: -1"),
]


@pytest.mark.parametrize("jit_compile", [False, True])
def test_ids_outside_their_table_are_refused(jit_compile):
    model = BertClassifier(CONFIG)
    model.compile(jit_compile=jit_compile)
    calls = [
        model,
        model.predict,
        model.predict_on_batch,
        lambda inputs: model.evaluate(inputs, CLASSES),
        lambda inputs: model.fit(inputs, CLASSES),
        lambda inputs: model.fit(IDS, CLASSES, validation_data=(inputs, CLASSES)),
        lambda inputs: model.train_on_batch(inputs, CLASSES),
        lambda inputs: model.test_on_batch(inputs, CLASSES),
    ]
    for call in calls:
        wrong_inputs(call, *OUTSIDE)


def test_positions_outside_their_table_are_refused():
    batch = FULL | {"part_ids": np.ones_like(IDS), "position_ids": np.full_like(IDS, CONFIG.max_sequence_length)}
    with pytest.raises(ValueError, match="`position_ids` must be from 0 to 511. Received: 512 in row 0, position 0"):
        BertEncoder(CONFIG, num_parts=1).predict(batch)


@pytest.mark.parametrize("inputs", [with_id(-1), with_id(50)["token_ids"], with_id(2, "segment_ids")])
def test_ids_outside_their_table_are_found_in_a_dataset(inputs):
    model = BertClassifier(CONFIG)
    model.compile(jit_compile=True)  # the model's own graph then raises no error
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be from 0 to"):
        model.evaluate(tf.data.Dataset.from_tensors((inputs, np.array(CLASSES))), verbose=0)


@pytest.mark.parametrize(
    "name, outside, nearest",
    [("token_ids", -1, 0), ("token_ids", 50, 49), ("segment_ids", 2, 1), ("segment_ids", -1, 0)],
)
def test_ids_outside_their_table_in_a_graph(name, outside, nearest):
    """An error that names the id; under XLA, which cannot raise one, the nearest id."""
    model = BertClassifier(CONFIG)

    def logits(batch):
        return model(batch)["logits"]

    wrong, right = ({k: tf.constant(v) for k, v in with_id(value, name).items()} for value in (outside, nearest))
    for function in (logits, tf.function(logits)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"\[2,1\] = {outside} is not in \[0, "):
            function(wrong)
    compiled = tf.function(logits, jit_compile=True)
    np.testing.assert_array_equal(compiled(wrong), compiled(right))


def test_rows_of_unequal_lengths_are_named(model):
    with pytest.raises(ValueError, match=r"rows of one length.*Received: rows of \[1, 2\] numbers"):
        model.predict([[2, 3], [2]], verbose=0)
