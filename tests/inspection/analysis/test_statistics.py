"""Statistics of heads, linear probes and linear CKA, on numbers that are known."""

import numpy as np
import pytest

from kbert.inspection.analysis.attention_heads import (
    STATISTICS,
    attention_statistics,
    entity_attention,
    entity_numbers,
    head_accuracy,
    mean_statistics,
    word_attention,
)
from kbert.inspection.analysis.probes import layer_similarity, probe_layers

TOKENS = ["[CLS]", "a", "b", "[SEP]"]


def test_heads_of_one_kind():
    n = len(TOKENS)
    to_next, to_cls, to_sep, uniform = np.eye(n, k=1), np.zeros((n, n)), np.zeros((n, n)), np.full((n, n), 1 / n)
    to_next[-1, -1] = to_cls[:, 0] = to_sep[:, 3] = 1
    found = attention_statistics(np.stack([to_next, to_cls, to_sep, uniform]), TOKENS)
    assert set(found) == set(STATISTICS)
    np.testing.assert_allclose(found["entropy"], [0, 0, 0, np.log(4)], atol=1e-12)
    np.testing.assert_allclose(found["distance"], [3 / 4, (0 + 1 + 2 + 3) / 4, 6 / 4, (6 + 4 + 4 + 6) / 16])
    np.testing.assert_allclose(found["to_cls"], [0, 1, 0, 1 / 4])
    np.testing.assert_allclose(found["to_sep"], [2 / 4, 0, 1, 1 / 4])
    np.testing.assert_allclose(found["next"], [1, 0, 1 / 3, 1 / 4])
    np.testing.assert_allclose(found["previous"], [0, 1 / 3, 0, 1 / 4])


def test_texts_weigh_as_much_as_they_have_tokens():
    short, long = np.ones((1, 1)), np.full((3, 3), 1 / 3)
    found = mean_statistics([short, long], [["[CLS]"], ["[CLS]", "a", "[SEP]"]])
    np.testing.assert_allclose(found["to_cls"], (1 * 1 + 3 * 1 / 3) / 4)
    np.testing.assert_allclose(found["entropy"], 3 * np.log(3) / 4)


def test_attention_between_words():
    """Words 0 and 1, of two tokens and one, between [CLS] and [SEP]; written out."""
    probs = np.array(
        [
            [0.2, 0.2, 0.2, 0.2, 0.2],
            [0.1, 0.2, 0.3, 0.4, 0.0],
            [0.0, 0.0, 0.5, 0.25, 0.25],
            [0.1, 0.3, 0.2, 0.4, 0.0],
            [1.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )
    expected = [[(0.5 + 0.5) / 2, (0.4 + 0.25) / 2], [0.5, 0.4]]
    np.testing.assert_allclose(word_attention(probs, [-1, 0, 0, 1, -1]), expected)


def test_heads_that_find_the_syntactic_head():
    heads = np.array([1, -1, 1, 2])  # the word "1" is the root
    follows, backwards = np.full((4, 4), 0.01), np.full((4, 4), 0.01)
    follows[[0, 2, 3], [1, 1, 2]] = backwards[[1, 1, 2], [0, 2, 3]] = 0.9
    np.fill_diagonal(follows, 5.0)  # what a word gives to itself does not count
    found = head_accuracy([np.stack([follows, backwards])], [heads])
    np.testing.assert_allclose(found["to_head"][0], 1.0)
    assert found["to_head"][1] < 1 and found["from_head"][1] == pytest.approx(2 / 3)  # 1 attends most to one of two
    assert head_accuracy([follows], [[-1] * 4])["words"] == 0
    assert found["words"] == 3 and found["baseline"] == pytest.approx(2 / 3)  # the word before, twice of three


def test_attention_that_stays_within_entities():
    tags = ["B-PER", "I-PER", "O", "B-LOC", "B-LOC"]
    assert entity_numbers(tags).tolist() == [0, 0, -1, 1, 2]
    inside, uniform = np.zeros((5, 5)), np.full((5, 5), 0.2)
    inside[0, 1] = inside[1, 0] = inside[2, 3] = 1
    found = entity_attention([np.stack([inside, uniform])], [tags])
    np.testing.assert_allclose(found["fraction"], [1, 1 / 4])
    assert found["uniform"] == pytest.approx(1 / 4) and found["words"] == 2
    assert entity_attention([uniform], [["O"] * 5])["words"] == 0


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


@pytest.mark.parametrize("rows", [4, 50])
def test_it_is_the_alignment_of_centred_gram_matrices(rng_states, rows):
    x, y = rng_states(rows, 7), rng_states(rows, 9)
    centre = np.eye(rows) - 1 / rows

    def hsic(k, m):  # Gretton et al. 2005; the factor 1 / (rows - 1)² cancels
        return np.trace(k @ centre @ m @ centre)

    k, m = x @ x.T, y @ y.T
    assert _alignment(x, y) == pytest.approx(hsic(k, m) / np.sqrt(hsic(k, k) * hsic(m, m)), rel=1e-9)


def test_rotation_scale_and_shift_change_nothing(rng_states):
    x = rng_states(50, 7)
    rotation, _ = np.linalg.qr(rng_states(7, 7))
    assert _alignment(x, 3 * x @ rotation + 5) == pytest.approx(1, rel=1e-9)
    assert _alignment(x, rng_states(50, 7)) < 0.5
    assert _alignment(x, np.ones((50, 3))) == 0


def test_all_layers(rng_states):
    x, y = (np.stack([rng_states(30, 5) for _ in range(count)], axis=1) for count in (2, 3))
    found = layer_similarity(x, y)
    expected = [[_alignment(x[:, i], y[:, j]) for j in range(3)] for i in range(2)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.fixture
def rng_states():
    rng = np.random.default_rng(0)
    return lambda rows, size: rng.normal(size=(rows, size))


def _alignment(x, y):
    return layer_similarity(x[:, np.newaxis], y[:, np.newaxis])[0, 0]
