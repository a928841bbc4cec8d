"""Rows in memory: lists, dicts, data frames and tf.data."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.na_type import NAType
from helpers.tiny_directory import write_table
from helpers.tiny_finetuning import ROWS, TASK
from helpers.wrong_values import wrong_inputs

import kbert


class Frame:
    """As pandas has it."""

    def __init__(self, columns):
        self._columns, self.columns = columns, list(columns)

    def __getitem__(self, name):
        return np.array(self._columns[name], object)


def test_rows_in_memory_in_every_form(tmp_path):
    texts, labels = (list(column) for column in zip(*ROWS, strict=True))
    columns = {"text": texts, "label": labels}
    dataset = tf.data.Dataset.from_tensor_slices(columns)
    pairs = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(7)
    write_table(tmp_path / "train.csv", ROWS)
    forms = [
        ROWS,
        columns,
        [{"text": text, "label": label, "other": 1} for text, label in ROWS],
        Frame(columns),
        dataset,
        dataset.batch(7),
        pairs,
        tmp_path / "train.csv",
        TASK.read(tmp_path / "train.csv"),
    ]
    for form in forms:
        examples = TASK.examples(form)
        assert (list(examples.texts), list(examples.label_names)) == (texts, ["bad", "good"])
        assert [examples.label_names[n] for n in examples.labels] == labels
        assert examples.fingerprint() == TASK.examples(ROWS).fingerprint()


def test_strings_of_a_dataset_are_those_of_a_list():
    task, texts = kbert.tasks.Similarity(), ["good", "bad", "naïve"]
    dataset = tf.data.Dataset.from_tensor_slices(texts)
    for form in (dataset, dataset.batch(2)):
        assert task.examples(form).fingerprint() == task.examples(texts).fingerprint()
    with pytest.raises(ValueError, match=r"row 0: expected 2 values, .* Received: 1 value"):
        TASK.examples(dataset)


def test_rows_that_are_none():
    wrong_inputs(
        TASK.examples,
        ([("a",)], r"row 0: expected 2 values, \['text', 'label'\]"),
        ([], "at least one row"),
        ({"text": ["a"]}, r"missing: \['label'\]"),
        ([{"text": "a", "label": None}], "row 0: expected a label in 'label'. .* an empty cell .*NaN; rows count"),
        ([("a", {"b": 1})], "row 0: 'label' must be a string, a number or a list. Received: {'b': 1}"),
        ([("a", ["b"])], r"row 0: expected one label in 'label'. Received: \['b'\]. For several labels a text give"),
        ([("a", "x"), ("b \ud83d", "y")], "row 1: 'text': expected characters. Received: half a surrogate pair"),
        (tf.data.Dataset.from_tensors({"text": "a", "label": 1}).repeat(), "a finite dataset"),
    )
    with pytest.raises(TypeError, match="Received: int"):
        TASK.examples(3)


@pytest.mark.parametrize("column", ["good", b"good", None])
def test_a_column_that_is_one_value(column):
    with pytest.raises(TypeError, match=f"the column 'text' as a list, with a value a row. Received: {column!r}"):
        TASK.examples({"text": column, "label": ["a", "b", "a", "b"]})


def test_whole_floats_are_labels_of_integers(tmp_path):
    """pandas makes floats of integers where a cell of their column was empty."""
    stars = TASK.examples({"text": ["a", "b", "c"], "label": [2.0, np.float64(10), 2.5]})
    assert stars.label_names == ("10", "2", "2.5")
    assert TASK.examples([("a", 1.0), ("b", 2.0)]).fingerprint() == TASK.examples([("a", 1), ("b", 2)]).fingerprint()
    (tmp_path / "a.csv").write_text("text,label\na,1.0\nb,2\n")
    assert TASK.read(tmp_path / "a.csv").label_names == ("1.0", "2")  # as written
    assert kbert.tasks.Regression().examples([("a", 1.0), ("b", 2.5)]).labels.tolist() == [1.0, 2.5]


def test_missing_values_of_pandas_are_empty(caplog):
    examples = TASK.examples({"text": ["good", NAType(), float("nan"), None], "label": ["a", "b", "a", "b"]})
    assert list(examples.texts) == ["good", "", "", ""]
    assert "3 of 4 texts in 'text' are empty, None, NaN or null (first: row 1)" in caplog.text
    with pytest.raises(
        ValueError, match=r"row 1: expected a number in 'label'\. Received: an empty cell \('', None or NaN"
    ):
        kbert.tasks.Regression().examples([("a", 1), ("b", float("nan"))])


MISSING = pytest.mark.parametrize("missing", [None, float("nan"), NAType()], ids=["None", "NaN", "NA"])


@MISSING
def test_missing_questions_and_contexts(missing, caplog):
    task = kbert.tasks.SpanExtraction()
    row = {"question": "Who?", "context": "Ada did.", "answer": "", "id": "a"}
    squad = {**row, "answers": {"text": [], "answer_start": []}}
    for rows in ([row, {**row, "id": missing}], [squad, {**squad, "id": missing}]):
        assert task.read(rows).ids == ["a", "2"]
        for name in ("question", "context"):
            caplog.clear()
            found = task.read([rows[0], {**rows[1], name: missing}])
            assert found.columns[name] == [row[name], ""]
            assert f"1 of 2 texts in {name!r} are empty, None, NaN or null (first: row 1)" in caplog.text
            with pytest.raises(ValueError, match="expected texts in 'question' and 'context'. Received: an empty one"):
                task.read([{**rows[0], "question": missing, "context": missing}])
    with pytest.raises(ValueError, match="row 1: expected 'answers', a list, as in SQuAD's JSON. Received: "):
        task.read([squad, {**squad, "id": "b", "answers": missing}])


@MISSING
def test_missing_prompts_choices_and_labels(missing, caplog):
    task = kbert.tasks.MultipleChoice(choices=("a", "b", "c"))
    row = {"prompt": "p", "a": "x", "b": "y", "c": "z", "label": 1.0}
    found = task.read([row, {**row, "prompt": missing, "c": missing}])
    assert (found.prompts, found.choices) == (["p", ""], [["x", "y", "z"], ["x", "y"]])
    assert found.labels.tolist() == [1, 1]  # pandas makes floats of integers beside a missing one
    assert "1 of 2 texts in 'prompt' are empty, None, NaN or null (first: row 1)" in caplog.text
    with pytest.raises(ValueError, match="row 1: expected the text of a choice .* Received: '', an empty cell"):
        task.read([row, {**row, "label": missing}])
    task, row = kbert.tasks.MultipleChoice(), {"prompt": "p", "choices": ["x", "y"], "label": 1}
    assert task.read([row, {**row, "choices": ["x", "y", missing]}]).choices == [["x", "y"]] * 2
    for wrong in (missing, ["x", "y", 3]):
        with pytest.raises(ValueError, match="row 1: expected a list of strings in 'choices'. Received: "):
            task.read([row, {**row, "choices": wrong}])


@MISSING
def test_missing_words_tags_and_documents(missing):
    task, row = kbert.tasks.Tagging(), {"words": ["Ada"], "tags": ["B-PER"], "document": 1}
    for name, wrong in [("words", missing), ("tags", missing), ("words", [missing]), ("tags", [missing])]:
        with pytest.raises(ValueError, match="row 1: expected lists of words and of as many tags, all strings"):
            task.read([row, {**row, name: wrong}])
    with pytest.raises(ValueError, match="row 1: expected the sentence's document in 'document'. Received: "):
        task.read([row, {**row, "document": missing}])


@pytest.mark.parity
def test_frames_of_pandas():
    pandas = pytest.importorskip("pandas")
    texts, labels = (list(column) for column in zip(*ROWS, strict=True))
    plain = pandas.DataFrame({"text": texts, "label": labels}, index=range(5, 5 + len(texts)))
    numbers = plain["label"].map({"bad": 0, "good": 1})
    for frame in (plain, plain.convert_dtypes(), plain.astype({"label": "category"}), plain[plain["label"] != ""]):
        examples = TASK.examples(frame)
        assert (list(examples.texts), list(examples.label_names)) == (texts, ["bad", "good"])
        assert examples.fingerprint() == TASK.examples(ROWS).fingerprint()
    for dtype in ("int64", "Int8", "category"):
        assert list(TASK.examples(plain.assign(label=numbers.astype(dtype))).label_names) == ["0", "1"]
    for missing in (None, float("nan"), pandas.NA, pandas.NaT):
        assert TASK.examples(plain.assign(text=[missing, *texts[1:]])).texts[0] == ""
    with pytest.raises(ValueError, match=r"row 1: expected a label in 'label'"):
        TASK.examples(plain.assign(label=[labels[0], pandas.NA, *labels[2:]]))
    with pytest.raises(ValueError, match=r"missing: \['label'\]"):
        TASK.examples(plain.rename(columns={"label": "class"}))
