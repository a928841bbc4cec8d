"""Label columns."""

import numpy as np
import pytest

import kbert
from kbert.tasks.labelled_text import distinct_labels, label_ids, label_scores
from kbert.tasks.table import Table


def _table(*labels):
    return Table("dev.csv", [n + 2 for n in range(len(labels))], {"label": list(labels)})


def test_labels_are_sorted_whatever_the_order_of_the_rows():
    assert distinct_labels(["pos", "neg ", "neutral", "pos", " neg"]) == ["neg", "neutral", "pos"]
    assert distinct_labels(["10", "9", "-1", "9"]) == ["-1", "9", "10"]
    assert distinct_labels(["10", "9", "x"]) == ["10", "9", "x"]


def test_one_label_is_none():
    with pytest.raises(ValueError, match=r"at least two different labels. Received: \['1'\]"):
        task = kbert.tasks.Classification()
        task.settings(task.examples([("a", "1"), ("b", "1 ")]))


def test_ids():
    ids = label_ids(_table("b", " a", "b"), "label", ["a", "b"])
    assert ids.dtype == np.int32
    assert ids.tolist() == [1, 0, 1]


@pytest.mark.parametrize("bad", ["c", "", "A", "2"])
def test_an_unknown_label_is_named_by_file_and_line(bad):
    with pytest.raises(ValueError, match=rf"dev.csv, line 4: expected 'label' .*\['a', 'b'\]. Received: '{bad}'"):
        label_ids(_table("a", "b", bad), "label", ["a", "b"])


def test_scores():
    scores = label_scores(_table("3.800", " 5", "-1e-1"), "label")
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, np.array([3.8, 5, -0.1], "float32"))


@pytest.mark.parametrize("bad", ["x", "", "nan", "inf", "1,5", "1e39"])
def test_what_is_no_number_is_named_by_file_and_line(bad):
    with pytest.raises(ValueError, match=rf"dev.csv, line 3: expected a number in 'label'. Received: '{bad}'"):
        label_scores(_table("1", bad), "label")


def test_a_score_outside_the_range_is_named():
    assert label_scores(_table("0", "5.0"), "label", 0, 5).tolist() == [0, 5]
    with pytest.raises(ValueError, match=r"dev.csv, line 3: expected 'label' in \[0, 5\]. Received: '5.001'"):
        label_scores(_table("0", "5.001"), "label", 0, 5)
