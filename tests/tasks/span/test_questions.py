"""Readers of questions: SQuAD's JSON and tables, answers that are not where the file says, broken files."""

import json

import numpy as np
import pytest

from kbert.tasks.span.questions import Questions, locate, read_questions, read_squad
from kbert.tasks.span.task import SpanExtraction

CONTEXT = "Ada \U0001f600 wrote it. Ada Lovelace, née Byron, wrote it in 1843."


def squad(*questions, context=CONTEXT, version="2.0"):
    return {"version": version, "data": [{"title": "x", "paragraphs": [{"context": context, "qas": list(questions)}]}]}


def question(identifier, *answers, **more):
    answers = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": identifier, "question": f"Q {identifier}?", "answers": answers, **more}


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_the_official_layout(tmp_path):
    content = squad(
        question("a", ("Ada Lovelace", 16), ("Ada", 16)),
        question("b", is_impossible=True, plausible_answers=[{"text": "Ada", "answer_start": 0}]),
        question("c", ("née Byron", 30), is_impossible=False),
        question("d", ("1843", 3), answer_start_exact=False),
        question("e", ("Charles", 0)),
        question("f", ("Ada", 14)),
    )
    asked = read_squad(write(tmp_path / "dev.json", content))
    assert asked.ids == ("a", "b", "c", "d", "e", "f")
    assert asked.questions[0] == "Q a?" and set(asked.contexts) == {CONTEXT}
    assert asked.answers[:2] == (("Ada Lovelace", "Ada"), ())
    assert asked.has_answer.tolist() == [True, False, True, True, True, True]
    assert asked.is_lost.tolist() == [False, False, False, False, True, False]
    assert asked.answer_starts.tolist() == [16, -1, 30, CONTEXT.index("1843"), -1, 16]
    for start, end, answers in zip(asked.answer_starts, asked.answer_ends, asked.answers, strict=True):
        assert (start, end) == (-1, -1) or CONTEXT[start:end] == answers[0]
    some = asked.take([2, 0])
    assert some.ids == ["c", "a"] and some.answer_starts.tolist() == [30, 16]


def test_version_1_1_has_no_is_impossible(tmp_path):
    asked = read_questions(write(tmp_path / "dev.json", "\ufeff" + json.dumps(squad(question("a", ("Ada", 0))))))
    assert asked.has_answer.all() and asked.answer_starts.tolist() == [0]


@pytest.mark.parametrize("start, found", [(0, 0), (3, 0), (9, 16), (16, 16), (99, 16), (None, 0), (-5, 0)])
def test_the_nearest_occurrence(start, found):
    assert locate(CONTEXT, "Ada", start) == found
    assert locate(CONTEXT, "nobody", start) == locate(CONTEXT, "", start) == -1
    assert locate("aaaa", "aa", 1) == 1


@pytest.mark.parametrize(
    "context, answer, found",
    [
        ("Bart Simpson likes art.", "art", 19),
        ("In 1995 there were 5.", "5", 19),
        ("Bart", "art", 1),
        ("a-b, ab", "b", 2),
        ("中国的首都", "首", 3),
        ("smart (art)", "(art)", 6),
    ],
)
def test_without_a_start_a_whole_word_comes_first(context, answer, found):
    assert locate(context, answer, None) == found
    assert locate(context, answer, 0) == context.index(answer)  # what the file says is near


def test_questions_to_be_answered_need_no_answers(tmp_path):
    path = write(tmp_path / "test.json", squad({"id": "a", "question": "?"}, question("b", ("Ada", 0))))
    assert read_squad(path, labelled=False).has_answer.tolist() == [False, True]
    with pytest.raises(ValueError, match=r"qas\[0\]: expected 'answers'"):
        read_squad(path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_tables_of_ones_own(tmp_path, suffix):
    rows = [("Who?", CONTEXT, "Ada", "16"), ("When?", CONTEXT, "1843", ""), ("Why?", CONTEXT, "", "")]
    names = ("question", "context", "answer", "answer_start")
    path = tmp_path / f"own{suffix}"
    if suffix == ".jsonl":
        write(path, "".join(json.dumps(dict(zip(names, row, strict=True))) + "\r\n" for row in rows))
    else:
        cell = (lambda text: f'"{text}"') if suffix == ".csv" else str
        between = "," if suffix == ".csv" else "\t"
        write(path, "".join(between.join(map(cell, row)) + "\r\n" for row in [names, *rows]))
    asked = read_questions(path)
    assert asked.ids == ["1", "2", "3"]
    assert asked.answers == [("Ada",), ("1843",), ()]
    assert asked.answer_starts.tolist() == [16, CONTEXT.index("1843"), -1]


def test_rows_of_json_lines_without_what_is_not_known(tmp_path):
    rows = [{"answer": ""}, {"answer": "Ada", "answer_start": 16, "id": 7}, {"answer": "1843", "id": None, "by": [1]}]
    lines = "".join(json.dumps({"question": "?", "context": CONTEXT, **row}) + "\n" for row in rows)
    asked = read_questions(write(tmp_path / "own.jsonl", lines))
    assert asked.ids == ["1", "7", "3"] and asked.has_answer.tolist() == [False, True, True]
    assert asked.answer_starts.tolist() == [-1, 16, CONTEXT.index("1843")]


BAD = [
    ("x.json", "{", "x.json: not JSON"),
    ("x.json", [], "x.json, the whole: expected 'data', a list"),
    ("x.json", {"data": []}, "x.json holds no question"),
    ("x.json", {"data": [{"title": "t"}]}, r"x.json, data\[0\]: expected 'paragraphs'"),
    ("x.json", squad({"id": "a", "answers": []}), r"data\[0\].paragraphs\[0\].qas\[0\]: expected 'question', a string"),
    ("x.json", squad({"id": "a", "question": "?", "answers": [{"answer_start": 1}]}), r"answers\[0\]: expected 'text'"),
    ("x.json", squad(question("a", ("Ada", 1.5))), r"qas\[0\].answers\[0\]: expected a whole number in 'answer_start'"),
    ("x.json", squad(question("a"), question("a")), r"qas\[1\]: expected ids that differ. Received: 'a', also at"),
    (
        "x.csv",
        "question,context\na,b\n",
        r"x.csv, line 1: expected the columns .'question', 'context', 'answer'.*missing: \['answer'",
    ),
    ("x.json", squad(question("a", ("Ada", -1))), r"qas\[0\]: expected 'answer_start' to be a position.*Received: -1"),
    ("x.json", squad(question("a", ("Ada", 999))), "which has 58 characters, counted from 0. Received: 999"),
    ("x.csv", "question,context,answer,answer_start\na,b,b,-1\n", "line 2: expected 'answer_start' to be a position"),
    ("x.csv", "question,context,answer,answer_start\na,b,b,0\na,b,b,1\n", "line 3: .* 1 characters.*Received: 1"),
    ("x.csv", "question,context,answer,answer_start\na,b,b,one\n", "line 2: expected a whole number in 'answer_start'"),
    ("x.csv", "question,context,answer,answer_start\na,b,b,--5\n", "line 2: expected a whole number.*'--5'"),
    ("x.json", squad({"id": "a", "question": "?", "answer": []}), r"qas\[0\]: expected 'answers', a list"),
    ("x.json", squad(question("a", is_impossible="true")), r"qas\[0\]: expected true or false in 'is_impossible'"),
    ("x.json", '{"data": ' + "9" * 5000 + "}", "x.json: expected JSON as other programs write it. .*5000 digits"),
    ("x.json", "[" * 200_000, "x.json: expected JSON as other programs write it"),
    ("x.csv", "id,question,context,answer\n7,a,b,b\n7,a,b,b\n", "line 3: expected ids that differ. Received: '7'"),
    (
        "x.json",
        {"data": [{"paragraphs": [{"context": "\ud83d", "qas": []}]}]},
        r"data\[0\].paragraphs\[0\], 'context': expected characters. Received: half a surrogate pair, .ud83d",
    ),
    ("x.jsonl", '{"question": "?", "context": "a\\ud83d", "answer": ""}', "line 1: 'context': expected characters"),
    ("none.json", None, "is not a file"),
]


@pytest.mark.parametrize("name, content, message", BAD)
def test_what_is_wrong_is_named(tmp_path, name, content, message):
    if content is not None:
        write(tmp_path / name, content)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_questions(tmp_path / name)


def test_columns_of_other_lengths():
    with pytest.raises(ValueError, match="1 ids, 1 questions, 1 contexts, 1 answers, 2 answer_starts"):
        Questions(["1"], ["?"], ["x"], [()], np.zeros(2, "int32"))


def test_questions_are_held_out_by_contexts():
    rows = [(f"q{n}", f"context {n % 4}", f"{n % 4}") for n in range(12)]
    table = {name: [row[i] for row in rows] for i, name in enumerate(("question", "context", "answer"))}
    train, dev = SpanExtraction().read(table).split(0.25)
    assert (len(train), len(dev)) == (9, 3) and not set(train.contexts) & set(dev.contexts)
    one = SpanExtraction().read(table | {"context": ["0 1 2 3"] * 12})
    assert [len(part) for part in one.split(0.25)] == [9, 3]  # nothing else to go by
    with pytest.raises(ValueError, match="to hold out 1 to 3 of 4 contexts. Received: 4"):
        SpanExtraction().read(table).split(4)
