"""TriviaQA to SQuAD's form: which documents are used, where the answer is found, and that a model learns from it."""

import json

import pytest
from helpers.run_recipe import as_flags, run_recipe
from helpers.tiny_directory import write_tiny_directory
from triviaqa import find_answer, first_words

import kbert

TASK = kbert.tasks.SpanExtraction(doc_stride=4, max_query_length=4)


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
        "EntityPages": [{"Filename": name} for name in ("Ada.txt", "Late.txt", "Gone.txt", "Ada.txt")],
        "SearchResults": [{"Filename": "1/x.txt"}, {"Title": "no file"}, {"Filename": None}],
    }
    (tmp_path / "qa.json").write_text(json.dumps({"Data": [question]}), encoding="utf-8")
    return tmp_path


def convert(home, **more):
    flags = as_flags(questions=home / "qa.json", evidence=home / "evidence", output=home / "out.json", words=10, **more)
    return run_recipe("triviaqa", *flags)


@pytest.mark.usefixtures("eagerly")
def test_documents_with_an_answer_become_training_questions(home):
    assert convert(home) == 2
    asked = TASK.read(home / "out.json")
    assert asked.ids == ("q1--Ada.txt", "q1--1/x.txt")
    assert asked.answers == (("Countess of Lovelace",), ("ada lovelace",))
    for context, start, answers in zip(asked.contexts, asked.answer_starts, asked.answers, strict=True):
        assert context[start:].startswith(answers[0])
    options = {"steps": 1, "batch_size": 2, "sequence_length": 16}
    run = kbert.finetune(write_tiny_directory(home / "init"), TASK, home / "out.json", home / "out.json", **options)
    assert run.metrics["dev_examples"] == 2


def test_an_output_is_not_replaced(home):
    convert(home)
    with pytest.raises(SystemExit, match=r"out.json already exists. Delete it or choose another --output"):
        convert(home)


def test_no_answer_in_any_document(home):
    (home / "qa.json").write_text((home / "qa.json").read_text().replace('Ada"', 'zzz"').replace("Lovelace", "zzz"))
    with pytest.raises(SystemExit, match=r"evidence: 3 documents found, none with an answer in its first 10 words"):
        convert(home)
    assert not (home / "out.json").exists()


def test_first_words_and_answers():
    assert first_words(" a  b\nc d ", 3) == " a  b\nc"
    assert first_words("a b", 3) == "a b"
    assert find_answer("Adage, C++ (x)", ["c++"]) == (7, 10)
    assert find_answer("Adage", ["Ada", " "]) == (-1, -1)
