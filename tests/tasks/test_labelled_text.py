"""Labelled texts in memory."""

import sys

import numpy as np
import pytest
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.tasks.labelled_text import LabelledText, distinct_labels, from_table, label_ids, label_scores
from kbert.tasks.multiple_choice import LabelledChoices
from kbert.tasks.span.questions import Questions
from kbert.tasks.table import Table
from kbert.tasks.tagging.readers import TaggedText

EXAMPLES = LabelledText([f"t{n}" for n in range(17)], np.arange(17, dtype="int32"), [f"p{n}" for n in range(17)])


def test_rows_stay_together():
    some = EXAMPLES.take([4, 2])
    assert (some.texts, some.text_pairs, some.labels.tolist()) == (["t4", "t2"], ["p4", "p2"], [4, 2])


def test_a_split_is_a_partition_and_the_same_each_time():
    rest, few = EXAMPLES.split(5, seed=3)
    assert (len(few), len(rest)) == (5, 12)
    assert sorted(few.texts + rest.texts) == sorted(EXAMPLES.texts)
    assert all(t[1:] == p[1:] == str(n) for t, p, n in zip(few.texts, few.text_pairs, few.labels, strict=True))
    assert EXAMPLES.split(5, seed=3)[1].texts == few.texts
    assert EXAMPLES.split(5, seed=4)[1].texts != few.texts
    assert set(EXAMPLES.split(9, seed=3)[1].texts) > set(few.texts)


def test_a_split_that_leaves_nothing_is_an_error():
    wrong_inputs(EXAMPLES.split, *((count, f"1 to 16 of 17 examples. Received: {count}") for count in (0, 17, 18)))


def test_the_names_of_labels_are_part_of_the_examples():
    one, same, other = (
        LabelledText(["a", "b"], np.array([0, 1], "int32"), label_names=names)
        for names in (("neg", "pos"), ["neg", "pos"], ("pos", "neg"))
    )
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()


def test_from_a_table():
    table = Table("a.csv", [2, 3], {"a": ["x", "y"], "b": ["u", "v"], "n": ["1", "0"]})
    examples = from_table(table, text="a", text_pair="b", label="n", labels=["0", "1"])
    assert (examples.texts, examples.text_pairs, examples.labels.tolist()) == (["x", "y"], ["u", "v"], [1, 0])
    assert examples.labels.dtype == np.int32
    examples = from_table(table, text="b", label="n")
    assert not examples.pair
    assert examples.labels.dtype == np.float32


def test_lengths_must_agree_and_every_example_has_a_label():
    abc = ["a", "b", "c"]
    wrong_inputs(
        lambda columns: LabelledText(*columns),
        ((["a", "b"], np.zeros(1, "int32")), "Received: 2 texts, 1 labels"),
        ((["a", "b"], np.zeros(2, "int32"), ["c"]), "Received: 2 texts, 2 labels, 1 text_pairs"),
        (([], np.zeros(0, "int32")), "at least one"),
        ((abc, np.array([0, 1, -1])), "example 2 to be an index into the label list, from 0. Received: -1"),
        ((abc, np.array([0.0, np.nan, 1.0])), "label of example 1 to be a finite number. Received: nan"),
        ((abc, np.array([np.inf, 0.0, 1.0])), "label of example 0 to be a finite number. Received: inf"),
    )


def test_a_table_of_empty_texts_is_an_error(caplog):
    table = Table("t.csv", [2, 3], {"text": ["", " "], "pair": ["", "\t"], "label": ["0", "1"]})
    with pytest.raises(ValueError, match="t.csv, line 2: expected texts in 'text'. Received: 2 empty ones"):
        from_table(table, text="text", label="label", labels=["0", "1"])
    with pytest.raises(ValueError, match="line 2: expected texts in 'text' and 'pair'"):
        from_table(table, text="text", text_pair="pair", label="label")
    table["pair"] = ["", "one text will do"]
    caplog.clear()
    assert len(from_table(table, text="text", text_pair="pair", label="label", labels=["0", "1"])) == 2
    for name, count in (("text", 2), ("pair", 1)):
        message = f"{count} of 2 texts in {name!r} are empty, None, NaN or null (first: t.csv, line 2)"
        assert message in caplog.text
    caplog.clear()
    from_table(Table("t.csv", [2, 3], {"text": ["a", "b"], "label": ["0", "1"]}), text="text", label="label")
    assert not caplog.records


def test_a_row_is_named_by_file_and_line():
    labels = np.array([0, 1, 0], "int32")
    read = LabelledText(["a", "b", "c"], labels, path="/data/dev.csv", lines=[2, 3, 7]).take([2])
    assert (read.where(0), read.source(0)) == ("/data/dev.csv, line 7", "dev.csv, line 7")
    in_memory = LabelledText(["a", "b", "c"], labels, lines=[0, 1, 2]).take([1])
    assert in_memory.where(0) == in_memory.source(0) == "the examples, row 1"
    assert LabelledText(["a"], labels[:1]).where(0) == "the examples, row 0"


@pytest.mark.parity
@pytest.mark.parametrize("several", [False, True])
def test_rows_are_dicts_slices_and_a_data_frame(several):
    pd = pytest.importorskip("pandas")
    labels = np.array([[0, 1], [0, 0], [1, 1]] if several else [1, 0, 1], "int32")
    examples = LabelledText(["a", "b", "c"], labels, label_names=("neg", "pos"))
    names = [["pos"], [], ["neg", "pos"]] if several else ["pos", "neg", "pos"]
    rows = [{"text": text, "label": name} for text, name in zip("abc", names, strict=True)]
    assert list(examples) == rows and examples[0] == rows[0] and examples[-1] == rows[2]
    assert isinstance(examples[:2], LabelledText) and list(examples[:2]) == rows[:2]
    assert list(examples[::-1]) == rows[::-1]
    pd.testing.assert_frame_equal(examples.to_dataframe(), pd.DataFrame(rows))
    with pytest.raises(IndexError):
        examples[3]
    with pytest.raises(ValueError, match="at least one. Received: "):
        examples[3:]


def test_a_data_frame_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_dataframe needs pandas: pip install pandas"):
        EXAMPLES.to_dataframe()


def test_rows_of_other_tasks():
    tagged = TaggedText([["Ada", "left"]], [["B-PER", "O"]], [0])
    assert list(tagged) == [{"words": ["Ada", "left"], "tags": ["B-PER", "O"], "document": 0}]
    questions = Questions(["1"], ["Who?"], ["Ada did."], [("Ada",)], np.array([0], "int32"))
    texts = {"id": "1", "question": "Who?", "context": "Ada did."}
    assert questions[0] == texts | {"answers": ("Ada",), "answer_start": 0}
    choices = LabelledChoices(["p"], [["a", "b"]], np.array([1], "int32"))
    assert list(choices) == [{"prompt": "p", "choices": ["a", "b"], "label": 1}]


def test_a_stratified_split_keeps_the_shares_of_labels():
    labels = np.repeat(np.arange(3, dtype="int32"), [70, 20, 10])
    examples = LabelledText([f"t{n}" for n in range(100)], labels)
    rest, few = examples.split(0.1, seed=5, stratify=True)
    assert np.bincount(few.labels).tolist() == [7, 2, 1] and np.bincount(rest.labels).tolist() == [63, 18, 9]
    assert sorted(few.texts + rest.texts) == sorted(examples.texts)
    assert few.texts == examples.split(10, seed=5, stratify=True)[1].texts
    assert few.texts != examples.split(10, seed=6, stratify=True)[1].texts
    assert np.bincount(examples.split(5, stratify=True)[1].labels, minlength=3).sum() == 5
    numbers = LabelledText(["a", "b"], np.array([0.5, 1.0], "float32"))
    several = LabelledText(["a", "b"], np.array([[0, 1], [1, 0]], "int32"))
    for other in (numbers, several, TaggedText([["a"], ["b"]], [["O"], ["O"]], [0, 1])):
        with pytest.raises(ValueError, match="`stratify` is for texts with one label each. Received: "):
            other.split(1, stratify=True)


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


def test_an_unknown_label_is_named_by_file_and_line():
    message = r"dev.csv, line 4: expected 'label' .*\['a', 'b'\]. Received: '{}'"
    wrong_inputs(
        lambda bad: label_ids(_table("a", "b", bad), "label", ["a", "b"]),
        *((bad, message.format(bad)) for bad in ("c", "", "A", "2")),
    )


def test_scores():
    scores = label_scores(_table("3.800", " 5", "-1e-1"), "label")
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, np.array([3.8, 5, -0.1], "float32"))


def test_what_is_no_number_is_named_by_file_and_line():
    message = "dev.csv, line 3: expected a number in 'label'. Received: '{}'"
    wrong_inputs(
        lambda bad: label_scores(_table("1", bad), "label"),
        *((bad, message.format(bad)) for bad in ("x", "", "nan", "inf", "1,5", "1e39")),
    )


def test_a_score_outside_the_range_is_named():
    assert label_scores(_table("0", "5.0"), "label", 0, 5).tolist() == [0, 5]
    with pytest.raises(ValueError, match=r"dev.csv, line 3: expected 'label' in \[0, 5\]. Received: '5.001'"):
        label_scores(_table("0", "5.001"), "label", 0, 5)
