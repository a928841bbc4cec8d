"""Head statistics and agreement with annotations, on attention whose numbers are known."""

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


def test_a_wrong_number_of_tokens_is_named():
    with pytest.raises(ValueError, match=r"as many tokens as `tokens` has, 3\. Received: shape \(2, 4, 4\)"):
        attention_statistics(np.ones((2, 4, 4)), ["a", "b", "c"])


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
    assert found["words"] == 3 and found["baseline"] == pytest.approx(2 / 3)  # the word before, twice of three


@pytest.mark.parametrize("heads", [[1, 0, 3], [1, -2, 0], [1, 0]])
def test_wrong_heads_are_named(heads):
    with pytest.raises(ValueError, match="sentence 0: expected a head from -1 to 2 for each of 3 words. Received: "):
        head_accuracy([np.ones((3, 3)) / 3], [heads])


def test_attention_that_stays_within_entities():
    tags = ["B-PER", "I-PER", "O", "B-LOC", "B-LOC"]
    assert entity_numbers(tags).tolist() == [0, 0, -1, 1, 2]
    inside, uniform = np.zeros((5, 5)), np.full((5, 5), 0.2)
    inside[0, 1] = inside[1, 0] = inside[2, 3] = 1
    found = entity_attention([np.stack([inside, uniform])], [tags])
    np.testing.assert_allclose(found["share"], [1, 1 / 4])
    assert found["uniform"] == pytest.approx(1 / 4) and found["words"] == 2
    assert entity_attention([uniform], [["O"] * 5])["words"] == 0
