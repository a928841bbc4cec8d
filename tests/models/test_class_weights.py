"""`class_weight`: which class a key means, and what is no weight, for fine-tuning, pipelines and models alike."""

import keras
import numpy as np
import pytest
from helpers.batches import BATCH, LENGTH, config, labels_of, plain_batch
from helpers.wrong_values import wrong_inputs

from kbert.models.class_weights import apply_class_weight, class_factors
from kbert.models.classifier import BertClassifier
from kbert.models.tagger import BertTagger

STARS = ["1", "2", "3"]


@pytest.mark.parametrize(
    "class_weight, labels, expected",
    [
        ({"1": 5.0}, STARS, [5, 1, 1]),
        ({0: 5.0}, STARS, [5, 1, 1]),  # no label is called 0
        ({1: 5.0, 2: 4}, ["0", "1", "2"], [1, 5, 4]),
        ({np.int64(1): np.float32(5.0)}, ["a", "b", "c"], [1, 5, 1]),
        ({1: 5.0}, None, [1, 5, 1]),
        ({np.str_("3"): np.float16(0.5)}, tuple(STARS), [1, 1, 0.5]),
    ],
)
def test_strings_are_labels_and_integers_are_classes(class_weight, labels, expected):
    factors = class_factors(class_weight, 3, labels, owner="it")
    assert factors.dtype == np.float32 and factors.tolist() == expected


def test_what_is_no_class_weight():
    wrong_inputs(
        lambda weights_and_labels: class_factors(weights_and_labels[0], 3, weights_and_labels[1], owner="it"),
        (({1: 5.0}, STARS), "it: expected strings as keys of `class_weight`.* 1 is not that of the label '1'"),
        (({3: 5.0}, STARS), "it: expected strings as keys of `class_weight`.* 3 is not that of the label '3'"),
        (({4: 5.0}, STARS), r"for the labels \['1', '2', '3'\], or the classes 0 to 2. Received: 4"),
        (({"4": 5.0}, STARS), r"for the labels \['1', '2', '3'\], or the classes 0 to 2. Received: '4'"),
        (({"1": 5.0}, None), "for the classes 0 to 2. Received: '1'"),
        (({True: 5.0}, ["a", "b", "c"]), "or the classes 0 to 2. Received: True"),
        (({1.0: 5.0}, None), "for the classes 0 to 2. Received: 1.0"),
        (({"a": 5.0, 0: 2.0}, ["a", "b", "c"]), "one `class_weight` for class 0"),
        (({"1": "5"}, STARS), "of at least 0 for '1'. Received: '5'"),
        (({"1": float("inf")}, STARS), "of at least 0 for '1'. Received: inf"),
        (({1: -1.0}, ["a", "b", "c"]), "of at least 0 for 1. Received: -1.0"),
        (([1.0, 2.0, 3.0], STARS), r"as \{label: factor\} or \"balanced\". Received: \[1.0, 2.0, 3.0\]"),
        (("balanced", STARS), 'class_weight="balanced" is for kbert.finetune, and for pipeline.fit with labels in arr'),
    )


def test_balanced():
    ids = np.array([0, 0, 0, 2, -1, -1])
    factors = class_factors("balanced", 3, STARS, ids=ids, owner="it")
    assert 3 * factors[0] == pytest.approx(factors[2]) and 3 * factors[0] + factors[2] == pytest.approx(4)
    with pytest.raises(ValueError, match=r"it: `class_weight` is for texts with one label each.*\(4, 3\)"):
        class_factors("balanced", 3, STARS, ids=np.ones((4, 3)), owner="it")


def test_a_weight_for_each_text_is_that_of_all_its_tokens():
    ids = labels_of((BATCH, LENGTH), 3)
    expected = np.where(ids == 0, 2.0, 1.0) * np.arange(BATCH)[:, None]
    model = BertTagger(config(num_layers=1), num_labels=3)
    for weights in (np.arange(BATCH), np.arange(BATCH)[:, None], np.repeat(np.arange(BATCH)[:, None], LENGTH, axis=1)):
        _, found = apply_class_weight(model, None, ids, weights, {0: 2.0})
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(found), expected)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("keyed", [False, True])
def test_of_a_single_batch(keyed):
    ids, factors = labels_of((BATCH, LENGTH), 3), {0: 2.0, 2: 0.5}
    model = BertTagger(config(num_layers=1), num_labels=3)
    model.compile(keras.optimizers.SGD(0.0))
    y = {"logits": ids} if keyed else ids
    weights = np.array([2.0, 1.0, 0.5])[ids]
    expected = model.train_on_batch(plain_batch(), y, {"logits": weights} if keyed else weights, return_dict=True)
    found = model.train_on_batch(plain_batch(), y, class_weight=factors, return_dict=True)
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-6)


@pytest.mark.usefixtures("eagerly")
def test_rows_that_are_split_off_for_validation_are_not_weighted():
    model = BertClassifier(config(num_layers=1))
    model.compile(keras.optimizers.SGD(0.0))
    batch, labels = plain_batch(), np.arange(BATCH) % 2
    how = {"validation_split": 0.5, "shuffle": False, "batch_size": BATCH, "verbose": 0}
    plain, weighted = (
        model.fit(batch, labels, class_weight=factors, **how).history for factors in (None, {0: 1.0, 1: 100.0})
    )
    for name in ("val_loss", "val_accuracy"):
        assert weighted[name] == pytest.approx(plain[name], rel=1e-6)
    assert weighted["loss"] != plain["loss"]
