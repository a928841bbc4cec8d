"""Rows give the same examples whether they are in memory or in a file of any format."""

import json

import numpy as np
import pytest
from helpers.wrong_values import wrong_inputs

import kbert
from kbert.tasks.in_memory import table_of
from kbert.tasks.labelled_text import LabelledText
from kbert.tasks.table import place, read_table

CONTEXT = "Ada Lovelace wrote it in 1843."
ADA = {"question": "Who?", "context": CONTEXT}
WHEN = {"question": "When?", "context": CONTEXT}
CASES = {
    "label": (kbert.tasks.Classification(), [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]),
    "booleans": (kbert.tasks.Classification(), [{"text": "a", "label": True}, {"text": "b", "label": False}]),
    "whole numbers": (kbert.tasks.Classification(), [{"text": "a", "label": 1}, {"text": "b", "label": 10}]),
    "lists of labels": (
        kbert.tasks.Classification(label_separator="|"),
        [{"text": "a", "label": ["funny", "sad"]}, {"text": "b", "label": []}, {"text": "c", "label": ["it's"]}],
    ),
    "rows of 0 and 1": (
        kbert.tasks.Classification(label_separator="|", labels=["funny", "sad"]),
        [{"text": "a", "label": [1, 0]}, {"text": "b", "label": [0, 1]}],
    ),
    "numbers": (kbert.tasks.Regression(), [{"text": "a", "label": 1.5}, {"text": "b", "label": 2}]),
    "an answer": (
        kbert.tasks.SpanExtraction(),
        [ADA | {"answer": "Ada", "answer_start": 0}, WHEN | {"answer": "1843", "answer_start": 25}],
    ),
    "answers": (
        kbert.tasks.SpanExtraction(),
        [
            ADA | {"id": "x", "answers": {"text": ["Ada", "Ada Lovelace"], "answer_start": [0, 0]}},
            WHEN | {"id": "y", "answers": {"text": [], "answer_start": []}},
        ],
    ),
    "a list of answers": (
        kbert.tasks.SpanExtraction(),
        [ADA | {"answers": [{"text": "Ada", "answer_start": 0}]}, WHEN | {"answers": []}],
    ),
    "words": (
        kbert.tasks.Tagging(),
        [
            {"words": ["Ada", "left"], "tags": ["B-PER", "O"], "document": 1},
            {"words": ["She's", '"in"', "Paris"], "tags": ["O", "O", "B-LOC"], "document": 1},
        ],
    ),
    "tokens": (kbert.tasks.Tagging(), [{"tokens": ["Ada", "left"], "ner_tags": ["B-PER", "O"]}]),
    "spans": (
        kbert.tasks.Tagging(),
        [
            {"text": "Ada left Paris.", "spans": [{"start": 0, "end": 3, "type": "PER"}]},
            {"text": "Bob left Paris.", "spans": [{"start": 9, "end": 14, "type": "LOC"}]},
        ],
    ),
    "choices": (
        kbert.tasks.MultipleChoice(),
        [{"prompt": "p", "choices": ["x", "y"], "label": 1}, {"prompt": "q", "choices": ["x", "y", "z"], "label": 2}],
    ),
    "columns of choices": (
        kbert.tasks.MultipleChoice(choices=("a", "b")),
        [{"prompt": "p", "a": "x", "b": "y", "label": 1}, {"prompt": "q", "a": "x", "b": "y", "label": 0}],
    ),
}


def write(path, rows):
    """Writes rows as JSON lines, or by pandas as another format."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    return path


PARITY = pytest.mark.parity
FORMATS = pytest.mark.parametrize(
    "name", ["a.jsonl", *(pytest.param(name, marks=PARITY) for name in ("a.csv", "a.parquet"))]
)


@FORMATS
@pytest.mark.parametrize("case", CASES)
def test_files_are_read_as_rows_in_memory(case, name, tmp_path):
    task, rows = CASES[case]
    expected = task.read(rows)
    read = task.read(write(tmp_path / name, rows))
    assert list(read) == list(expected) and read.fingerprint() == expected.fingerprint()
    assert read.where(0) == place(tmp_path / name, {"a.jsonl": 1, "a.csv": 2, "a.parquet": 1}[name])
    for data in (rows, {column: [row[column] for row in rows] for column in rows[0]}):
        assert task.examples(data).fingerprint() == expected.fingerprint()


@PARITY
def test_a_frame_with_gaps_is_read_as_its_file(tmp_path):
    """pandas makes floats of integers in a column with gaps, and writes them so."""
    pandas = pytest.importorskip("pandas")
    task = kbert.tasks.SpanExtraction()
    rows = [WHEN | {"answer": "1843", "answer_start": 25}, ADA | {"answer": "", "answer_start": None}]
    frame = pandas.DataFrame(rows)
    frame.to_csv(tmp_path / "a.csv", index=False)
    assert "25.0" in (tmp_path / "a.csv").read_text()
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    for name in ("a.csv", "a.jsonl"):
        assert task.read(tmp_path / name).fingerprint() == task.read(frame).fingerprint()
    quiz = pandas.DataFrame([{"prompt": "p", "a": "x", "b": "y", "label": 1}, {"prompt": None, "a": None}])
    quiz.head(1).to_csv(tmp_path / "quiz.csv", index=False)
    assert "1.0" in (tmp_path / "quiz.csv").read_text()
    assert kbert.tasks.MultipleChoice(choices=("a", "b")).read(tmp_path / "quiz.csv").labels.tolist() == [1]


@pytest.mark.parametrize("start", [25, 25.0, "25", "25.0"])
def test_a_start_may_be_a_float(start, tmp_path):
    row = WHEN | {"answer": "1843", "answer_start": start}
    (tmp_path / "a.csv").write_text(f"question,context,answer,answer_start\nWhen?,{CONTEXT},1843,{start}\n")
    paragraph = {
        "context": CONTEXT,
        "qas": [{"id": 1, "question": "?", "answers": [{"text": "1843", "answer_start": start}]}],
    }
    (tmp_path / "a.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    rows = ([row], [WHEN | {"answers": {"text": ["1843"], "answer_start": [start]}}])
    for data in (tmp_path / "a.csv", tmp_path / "a.json", write(tmp_path / "a.jsonl", [row]), *rows):
        assert kbert.tasks.SpanExtraction().read(data).answer_starts.tolist() == [25]


@pytest.mark.parametrize("start", ["25.5", 25.5, "x", True, "1e1", float("inf")])
def test_a_start_that_is_not_a_whole_number(start, tmp_path):
    row = WHEN | {"answer": "1843", "answer_start": start}
    for data, where in ((write(tmp_path / "a.jsonl", [row]), "a.jsonl, line 1"), ([row], "row 0")):
        with pytest.raises(ValueError, match=f"{where}: expected a whole number in 'answer_start'. Received: "):
            kbert.tasks.SpanExtraction().read(data)


@pytest.mark.parametrize("type_", ["type", "label"])
def test_the_types_of_spans(type_, tmp_path):
    """spaCy and Prodigy call it label. Starts are floats where pandas made them so."""
    rows = [{"text": "in Paris", "spans": [{"start": 3.0, "end": 8, type_: "LOC", "token_start": 1}]}]
    for data in (rows, write(tmp_path / "a.jsonl", rows)):
        assert kbert.tasks.Tagging().read(data).tags == [["O", "B-LOC"]]
    del rows[0]["spans"][0][type_]
    with pytest.raises(ValueError, match=r"expected a span .* Received: \{'start': 3.0, 'end': 8, 'token_start': 1\}"):
        kbert.tasks.Tagging().read(rows)


def test_lists_as_text(tmp_path):
    task = kbert.tasks.Classification(label_separator=",")

    def labels(text):
        (tmp_path / "a.csv").write_text('text,label\na,"{}"\n'.format(text.replace('"', '""')))
        read = task.read(tmp_path / "a.csv")
        assert list(task.read([("a", text)])) == list(read)
        return read[0]["label"]

    for text in ("['funny', 'sad']", '["funny", "sad"]', "funny, sad"):
        assert labels(text) == ["funny", "sad"]
    assert labels("[]") == [] and labels("[other]") == ["[other]"]
    wrong_inputs(
        labels,
        ("['funny' 'sad']", r"line 2: 'label': expected a list or dict as JSON or Python writes it. Received: "),
        ("['funny', nan]", r"line 2: 'label': expected a list or dict as JSON or Python writes it. Received: "),
    )
    with pytest.raises(ValueError, match=r"row 0: expected one label .* Received: \['funny', 'sad'\]. For several"):
        kbert.tasks.Classification().read([("a", "['funny', 'sad']"), ("b", "x")])
    text = "['a list', 'as a text']"
    assert kbert.tasks.Classification().read([(text, "x"), ("b", "y")]).texts[0] == text


SPELLINGS = {"True": ("true", "TRUE"), "1": ("1.0", "01"), "2.50": ("2.5",)}


def test_labels_are_found_in_other_spellings():
    """A table that pandas has read has other spellings of booleans and numbers than its file."""
    names = list(SPELLINGS)
    for n, spellings in enumerate(SPELLINGS.values()):
        for spelling in spellings:
            examples = LabelledText(["a"], np.array([0], "int32"), label_names=(spelling,))
            assert examples.with_labels(names).labels.tolist() == [n]
            several = LabelledText(["a"], np.array([[1]], "int32"), label_names=(spelling,))
            assert several.with_labels(names).labels.tolist() == [[int(n == other) for other in range(3)]]
    for wrong in ("yes", "1.5", "truer", "nan"):
        with pytest.raises(ValueError, match="expected a label of"):
            LabelledText(["a"], np.array([0], "int32"), label_names=(wrong,)).with_labels(names)
    twice = LabelledText(["a", "b"], np.array([0, 1], "int32"), label_names=("1.0", "1.00"))
    assert twice.with_labels(["1.00", "1.0"]).labels.tolist() == [1, 0]
    with pytest.raises(ValueError, match="Received: '1'"):
        LabelledText(["a"], np.array([0], "int32"), label_names=("1",)).with_labels(["1.00", "1.0"])


@FORMATS
def test_missing_texts_are_empty_everywhere(name, tmp_path, caplog):
    rows = [{"text": text, "label": label} for text, label in [("good", "a"), (None, "b"), ("", "a"), (" ", "b")]]
    path = write(tmp_path / name, rows)
    for data, where in ((rows, "row 1"), (path, f"{place(path, 3 if name == 'a.csv' else 2)}")):
        caplog.clear()
        assert [text.strip() for text in kbert.tasks.Classification().read(data).texts] == ["good", "", "", ""]
        (record,) = caplog.records
        assert f"3 of 4 texts in 'text' are empty, None, NaN or null (first: {where})" in record.getMessage()
    with pytest.raises(ValueError, match="expected a label in 'label'. Received: "):
        kbert.tasks.Classification().read(write(tmp_path / name, [*rows, {"text": "a", "label": None}]))


def test_read_says_what_it_takes():
    for task, _ in CASES.values():
        with pytest.raises(TypeError, match="Expected examples as a file's path, .* Received: int"):
            task.read(3)
    glue = kbert.tasks.glue("SST-2")
    assert glue.read([{"sentence": "a", "label": 0}, {"sentence": "b", "label": 1}]).label_names == ("0", "1")


@PARITY
def test_headers_of_parquet_files_are_not_lines(tmp_path):
    path = write(tmp_path / "a.parquet", [{"text": "a", "label": "x"}, {"text": "b", "label": ["y"]}][:1])
    with pytest.raises(ValueError, match=r"a.parquet: expected the columns \['text', 'stars'\]. Received: \['text'"):
        kbert.tasks.Classification(label="stars").read(path)
    with pytest.raises(ValueError, match=r"a.parquet: expected the columns 'words' and 'tags' .* Received: \['text'"):
        kbert.tasks.Tagging().read(path)
    path = write(tmp_path / "a.parquet", [{"text": "a", "label": 1}, {"text": "b", "label": None}])
    with pytest.raises(ValueError, match=r"a.parquet, row 2: expected a label"):
        kbert.tasks.Classification().read(path)


@PARITY
def test_class_labels_of_parquet_files_become_their_names(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    names = {"names": ["O", "B-PER"], "_type": "ClassLabel"}
    features = {"tokens": {}, "label": names, "ner_tags": {"feature": names, "_type": "Sequence"}}
    columns = {"tokens": [["Ada", "left"], ["No"]], "label": [1, -1], "ner_tags": [[1, 0], [0]]}
    table = pyarrow.table(columns).replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    assert kbert.tasks.Tagging().read(tmp_path / "a.parquet").tags == [["B-PER", "O"], ["O"]]
    assert read_table(tmp_path / "a.parquet", ["label"])["label"] == ["B-PER", ""]


def test_optional_columns_of_some_rows(tmp_path):
    rows = [{"a": 1}, {"a": 2, "b": 3}]
    for data in (rows, write(tmp_path / "a.jsonl", rows)):
        assert table_of(data, ["a"], ["b", "c"]) == {"a": ["1", "2"], "b": ["", "3"]}
