"""Readers of multiple-choice files: SWAG, DREAM, one's own; what is wrong is named by file and line."""

import json

import numpy as np
import pytest
from helpers.tiny_directory import write_table
from helpers.wrong_values import wrong_inputs

from kbert.tasks.multiple_choice import LabelledChoices, read_questions

ROWS = [("Which?", "one", "two, or so", "", "two, or so"), ("", "a", "b", "c", "0"), ("Sum", "2", "1", "1", "1")]
LABELS = [1, 0, 1]  # the third is the text "1", not the number, and the first of two that have it


def read_table_of(path, prompt, choices, label):
    return read_questions(path, prompt=prompt, choices=choices, label=label)


def _swag(path, items):
    names = ("video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source", *(f"ending{i}" for i in range(4)))
    rows = []
    for n, one in enumerate(items):
        start, endings = (one["sent1"], one["sent2"]), [one[f"ending{i}"] for i in range(4)]
        rows.append((n, "v", n, " ".join(start), *start, "gold", *endings, one["label"]))
    return write_table(path, rows, ("", *names, "label"))


def test_columns_and_lists_give_the_same(tmp_path):
    table = write_table(tmp_path / "quiz.csv", ROWS, ("q", "a", "b", "c", "right"))
    lines = [json.dumps({"q": q, "all": [a, b, c] if c else [a, b], "right": y}) for q, a, b, c, y in ROWS]
    (tmp_path / "quiz.jsonl").write_text("\r\n".join(lines) + "\r\n")
    for examples in (
        read_table_of(table, "q", ["a", "b", "c"], "right"),
        read_table_of(tmp_path / "quiz.jsonl", "q", ["all"], "right"),
    ):
        assert examples.prompts == ["Which?", "", "Sum"]
        assert examples.choices == [["one", "two, or so"], ["a", "b", "c"], ["2", "1", "1"]]
        assert examples.labels.tolist() == LABELS and examples.labels.dtype == "int32"
        assert examples.columns["choices"][0] == ["one", "two, or so", ""]


def test_swag(tmp_path, shared_data):
    decoder, text, items = json.JSONDecoder(), (shared_data / "multiple_choice" / "swag_sample.json").read_text(), []
    while text.strip():
        item, end = decoder.raw_decode(text.lstrip())
        items.append(item)
        text = text.lstrip()[end:]
    examples = read_questions(_swag(tmp_path / "val.csv", items), "swag")
    assert (len(examples), len(examples.choices[0])) == (10, 4)
    assert examples.prompts[0].startswith("Members of the procession walk down the street")
    assert examples.choices[0][1] == "A drum line has heard approaching them."
    assert examples.labels.tolist() == [item["label"] for item in items]
    unlabelled = (tmp_path / "val.csv").read_text("utf-8").replace("label", "other")  # as its test.csv has none
    (tmp_path / "test.csv").write_text(unlabelled, "utf-8")
    unlabelled = read_questions(tmp_path / "test.csv", "swag", label=None)
    assert (unlabelled.prompts, unlabelled.choices) == (examples.prompts, examples.choices)
    items[1]["label"] = 4
    with pytest.raises(ValueError, match=r"val.csv, line 3: .*'3'\]. Received: '4'"):
        read_questions(_swag(tmp_path / "val.csv", items), "swag")


def test_dream(shared_data):
    train, dev = (
        read_questions(shared_data / "multiple_choice" / f"dream_{split}.json", "dream") for split in ("train", "dev")
    )
    assert (len(train), len(dev)) == (6116, 2040)
    assert {len(choices) for choices in dev.choices} == {3}
    assert dev.prompts[0].startswith("M: How long have you been teaching in this middle school? W: For ten years.")
    assert dev.choices[0][1] == "What's the woman probably going to do? To change her job."
    assert dev.labels[:2].tolist() == [1, 2]
    assert np.bincount(dev.labels).min() > 600


def test_what_is_wrong_in_dream(tmp_path):
    path = tmp_path / "d.json"

    def dialogue(turns, **question):
        return [[turns, [question], "1"]]

    wrong_inputs(
        lambda content: path.write_text(json.dumps(content)) and read_questions(path, "dream"),
        (dialogue(["A: hi"], question="q", choice=["a", "b"]), "dialogue 1: expected .turns"),
        (dialogue(["A: hi"], question="q", choice=["a", "b"], answer="c"), "dialogue 1: expected the text of"),
        (dialogue(["A: hi"], question="q", choice=["a"], answer="a"), "dialogue 1: expected at least two"),
        ([["A: hi"]], "dialogue 1: expected .turns"),
        (dialogue("A: hi", question="q", choice=["a", "b"], answer="a"), "turns and choices must be lists"),
        (dialogue(["A: hi"], question="q", choice="ab", answer="a"), "turns and choices must be lists"),
        (dialogue(["A: hi"], question=3, choice=["a", "b"], answer="a"), "must be strings"),
        (dialogue(["A: \ud83d"], question="q", choice=["a", "b"], answer="a"), "dialogue 1: expected char"),
        ({"a": 1}, "dialogue 1: expected"),
        ([], "at least one question"),
    )
    path.write_text("[")
    with pytest.raises(ValueError, match="d.json: not JSON"):
        read_questions(path, "dream")
    with pytest.raises(FileNotFoundError, match="is not a file"):
        read_questions(tmp_path / "none.json", "dream")


def test_what_is_wrong_in_a_table(tmp_path):
    names = ("q", "a", "b", "c", "right")
    wrong_inputs(
        lambda row: read_table_of(write_table(tmp_path / "quiz.csv", [row], names), "q", ["a", "b", "c"], "right"),
        (("q", "a", "", "", "a"), "line 2: expected at least two choices"),
        (("q", "a", " ", "b", "a"), "none of them blank"),
        (("q", "a", "b", "", "c"), r"line 2: expected the text .*\['a', 'b'\]. Received: 'c'"),
        (("q", "a", "b", "", "2"), "Received: '2'"),
        (("q", "a", "", "c", "1"), "Received: '1'"),  # an empty cell keeps its number and is no choice
        (("q", "a", "b", "", ""), "Received: ''"),
        (("q", "a", "b", "", "-1"), "Received: '-1'"),
    )


def test_what_is_wrong_in_json_lines(tmp_path):
    path = tmp_path / "quiz.jsonl"
    wrong_inputs(
        lambda entry: path.write_text(json.dumps(entry) + "\n") and read_table_of(path, "q", ["all"], "right"),
        ({"q": "x", "all": "a", "right": 0}, "list of strings in 'all'"),
        ({"q": "x", "all": ["a", ["b"]], "right": 0}, "list of strings in 'all'"),
        ({"q": "x", "all": ["a", "\ud83d"], "right": 0}, "line 1: .all.: expected characters. Received: half"),
        ({"q": "x", "right": 0}, "line 1: .*missing: .'all'"),
        ({"q": "x", "all": ["a", "b"], "right": True}, "Received: 'True'"),
    )


def test_examples_stay_together():
    examples = LabelledChoices([f"p{n}" for n in range(7)], [["x", f"c{n}"] for n in range(7)], np.ones(7, "int32"))
    rest, few = examples.split(3, seed=1)
    assert sorted(few.prompts + rest.prompts) == examples.prompts
    assert all(p[1:] == c[1][1:] for p, c in zip(few.prompts, few.choices, strict=True))
    with pytest.raises(ValueError, match="1 to 6 of 7"):
        examples.split(7)
    with pytest.raises(ValueError, match="1 prompts, 1 choices, 2 labels"):
        LabelledChoices(["a"], [["b", "c"]], np.zeros(2, "int32"))
    with pytest.raises(ValueError, match="label of example 0 .* Received: 2"):
        LabelledChoices(["a"], [["b", "c"]], np.array([2], "int32"))
