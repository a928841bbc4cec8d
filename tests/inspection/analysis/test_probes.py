"""Linear probes: the control task, and that they give the same every time."""

import numpy as np
import pytest

from kbert.inspection.analysis.probes import probe_layers


def words(count, seed):
    """States [M, 2, 8] of 60 word types: the first layer knows the word, the second its label; both with noise."""
    rng, table = np.random.default_rng(seed), np.random.default_rng(7)
    of_type, of_label = table.normal(size=(60, 8)), 3 * table.normal(size=(3, 8))
    types = rng.integers(0, 60, count)
    layers = [of_type[types], of_label[types % 3]]
    states = np.stack(layers, axis=1) + 0.3 * rng.normal(size=(count, 2, 8))
    return states.astype("float32"), [f"label {n % 3}" for n in types], [f"word {n}" for n in types]


def test_a_layer_that_knows_the_label_is_told_from_a_probe_that_knows_the_words():
    train, test = words(600, seed=1), words(300, seed=2)
    found = probe_layers("kind", train, test)
    assert found.accuracy[1] > 0.99 and found.best_layer == 1 and found.macro_f1[1] > 0.99
    assert found.accuracy[0] < found.accuracy[1] and found.majority < 0.5
    assert found.selectivity[1] > 0.4 and found.control_accuracy[1] < 0.6  # a label says little of a random one
    assert found.labels == ["label 0", "label 1", "label 2"] and found.unknown == 0
    again = probe_layers("kind", train, test)
    assert again.to_dict() == found.to_dict()
    assert probe_layers("kind", train, test, seed=1).control_accuracy != found.control_accuracy


def test_the_random_label_of_a_word_does_not_depend_on_the_order_of_the_words():
    """Words of one type have one label, the same in training and test: a layer of the words alone can learn it."""
    train, test = words(900, seed=1), words(300, seed=2)
    train, test = ((np.eye(60, dtype="float32")[_numbers(part[2])][:, None], *part[1:]) for part in (train, test))
    found = probe_layers("kind", train, test, l2=1e-5)
    assert found.accuracy[0] > 0.99 and found.control_accuracy[0] > 0.99
    assert found.selectivity[0] == pytest.approx(0, abs=0.01)
    backwards = probe_layers("kind", [column[::-1] for column in train], test, l2=1e-5)
    assert backwards.control_accuracy[0] == pytest.approx(found.control_accuracy[0], abs=0.01)


def _numbers(types):
    return [int(word.split()[1]) for word in types]


def test_labels_that_only_the_test_words_have_count_as_wrong():
    states, labels, types = words(60, seed=1)
    found = probe_layers("kind", (states, labels, types), (states[:4], ["label 0", "new", "new", "new"], types[:4]))
    assert found.unknown == 3 and max(found.accuracy) <= 0.25


def test_wrong_arguments_are_named():
    states, labels, types = words(6, seed=1)
    with pytest.raises(ValueError, match=r"at least two labels of 'kind' to tell apart\. Received: \['x'\]"):
        probe_layers("kind", (states, ["x"] * 6, types), (states, labels, types))
    with pytest.raises(ValueError, match=r"to test 'kind'. Received: shape \(6, 2, 8\), 5 labels and 6 types"):
        probe_layers("kind", (states, labels, types), (states, labels[:5], types))
