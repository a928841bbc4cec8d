"""Which class a label of `pipeline.fit` is."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.wrong_values import wrong_inputs

from kbert.pipelines.targets import label_ids

STARS = ["1", "3"]


def test_a_number_that_is_the_label_of_another_class_is_refused():
    message = "a number is a class from 0, and 3 is not that of the label '3'; write \"3\". Received: 3"
    wrong = (
        [0, 3, 1, 3],
        np.array([0, 3, 1, 3]),
        np.array([0, 3, 1, 3], object),
        np.array([[0.0], [3.0], [1.0], [1.0]], "float32"),
        {"logits": [0, 3, 0, 0]},
        [[0], [3], [0], [0]],
    )
    owner = "Pipeline: row 1: expected the labels as strings: "
    wrong_inputs(lambda values: label_ids(values, STARS), *((values, message) for values in wrong), owner=owner)
    with pytest.raises(ValueError, match="-1 is not that of the label '-1'"):
        label_ids([-1, 0, 1], ["-1", "0", "1"])


def test_a_tensor_is_checked_too():
    values = tf.constant([0, 3, 0, 1])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"\[1, 3\] are labels of other classes. Received:.*\[3 1\]"
    ):
        label_ids(values, STARS)
    checked = label_ids(values, ["0", "1", "2", "3"])
    assert checked.numpy().tolist() == [0, 3, 0, 1]


@pytest.mark.parametrize(
    "values, labels, multi_label",
    [
        ([0, 0, 5], STARS, False),  # 5 is for the model to refuse
        ([0, 2, -1], ["0", "1", "2"], False),
        ([0, 1, 1], ["a", "b"], False),
        ([0.5, 1.0, 3.0], None, False),
        (np.eye(2)[[0, 1, 1]], ["1", "2"], False),  # one-hot
        ([[0, 1], [1, 1], [0, 0]], ["1", "2"], True),
        ([0, 1, 1], ["01", "1.0"], False),
    ],
)
def test_other_numbers_stay_as_they_are(values, labels, multi_label):
    found = label_ids(values, labels, multi_label)
    np.testing.assert_array_equal(found, values)
    np.testing.assert_array_equal(label_ids(tf.constant(values), labels, multi_label), values)


@pytest.mark.parametrize("labels", [["0", "1"], ["LABEL_0", "LABEL_1"]])
def test_default_names_say_how_to_give_others(labels):
    message = r"default names; kbert.build_pipeline\(model, labels=\[...\]\) gives others. Received:.*good"
    with pytest.raises(ValueError, match=f"Pipeline: row 0: expected one of the labels.*{message}"):
        label_ids(["good", "bad"], labels)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        label_ids(tf.constant(["good", "bad"]), labels)
