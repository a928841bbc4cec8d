"""TriviaQA to SQuAD's form: which documents are used, and where the answer is found."""

import json

import pytest
from helpers.run_recipe import run_kbert
from helpers.wrong_values import wrong_inputs

from kbert.tasks.span.questions import read_squad
from kbert.tasks.span.triviaqa import find_answer, first_words

ASKED = {"Question": "?", "QuestionId": "1"}


@pytest.fixture
def home(tmp_path):
    pages = {
        "wikipedia/Ada.txt": "\ufeffAugusta ADA\n King, Countess of Lovelace, née Byron",
        "wikipedia/Late.txt": "word " * 12 + "Ada Lovelace",
        "web/1/x.txt": "Canada and adage. lovelace is ada lovelace \U0001f600",
    }
    for name, text in pages.items():
        path = tmp_path / "evidence" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    question = {
        "Question": "Who?",
        "QuestionId": "q1",
        "Answer": {"Value": "Ada", "Aliases": ["Ada Lovelace", "", "Countess of Lovelace"]},
        "EntityPages": [
            {"Filename": "Ada.txt"},
            {"Filename": "Late.txt"},
            {"Filename": "Gone.txt"},
            {"Filename": "Ada.txt"},
        ],
        "SearchResults": [{"Filename": "1/x.txt"}, {"Title": "no file"}, {"Filename": None}],
    }
    (tmp_path / "qa.json").write_text(json.dumps({"Data": [question]}), encoding="utf-8")
    return tmp_path


def convert(home, *more):
    arguments = ("--questions", home / "qa.json", "--evidence", home / "evidence", "--output", home / "out.json")
    run_kbert("triviaqa", *arguments, "--words", 10, *more)
    return read_squad(home / "out.json")


def test_documents_that_hold_an_answer(home):
    asked = convert(home)
    assert asked.ids == ("q1--Ada.txt", "q1--1/x.txt")
    assert asked.answers == (("Countess of Lovelace",), ("ada lovelace",))
    for context, start, answers in zip(asked.contexts, asked.answer_starts, asked.answers, strict=True):
        assert context[start:].startswith(answers[0])


def test_what_is_there_stays(home):
    convert(home)
    with pytest.raises(SystemExit, match="already exists; `overwrite`"):
        convert(home)
    convert(home, "--overwrite")


def test_what_is_wrong_is_named(home):
    def convert_content(content):
        text = content if isinstance(content, str) else json.dumps(content)
        (home / "qa.json").write_text(text, encoding="utf-8")
        convert(home)

    def asked(value, **more):
        return {"Data": [{**ASKED, "Answer": {"Value": value}, **more}]}

    wrong_inputs(
        convert_content,
        ('{"Data":\n[}', "qa.json, line 2: not JSON"),
        ({"data": []}, "expected TriviaQA's JSON"),
        (asked(None, Answer={"Value": None, "Aliases": [None]}), r"Data\[0\]: expected strings as"),
        (asked(None, Answer={"Aliases": "Ada"}), r"Data\[0\]: expected .* a list as 'Aliases'"),
        (asked("\ud83d"), r"Data\[0\]: expected characters"),
        ({"Data": [{"Question": "?"}]}, r"Data\[0\]: expected 'Question', 'QuestionId' and 'Answer'"),
        (asked(None, Answer={}), "holds none of the documents"),
        (asked("zzz", EntityPages=[{"Filename": "Ada.txt"}]), "no document contains an answer in its first 10 words"),
        (asked("a", EntityPages=[{"Filename": "../secret.txt"}]), "expected documents inside .*secret.txt"),
        error=SystemExit,
        owner="error: .*",
    )
    assert not (home / "out.json").exists()


def test_first_words_and_answers():
    assert first_words(" a  b\nc d ", 3) == " a  b\nc"
    assert first_words("a b", 3) == "a b"
    assert find_answer("Adage, C++ (x)", ["c++"]) == (7, 10)
    assert find_answer("Adage", ["Ada", " "]) == (-1, -1)
