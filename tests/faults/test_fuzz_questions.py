"""Damaged files of questions, 2,000 times each: SQuAD, tables, SWAG, DREAM and one's own choices, TriviaQA."""

import json

import pytest
from helpers.fuzz import check_reader

from kbert.tasks.multiple_choice.readers import read_choices, read_dream, read_prompts, read_swag
from kbert.tasks.span.readers import read_questions, read_squad
from kbert.tasks.span.triviaqa import triviaqa_questions

CONTEXT = "Ada \U0001f600 wrote it. Ada Lovelace, née Byron, wrote it in 1843."
ANSWERS = [{"text": "Ada Lovelace", "answer_start": 16}, {"text": "Ada", "answer_start": 0}]
SQUAD = {
    "version": "2.0",
    "data": [
        {
            "title": "Ada",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {"id": "a", "question": "Who?", "answers": ANSWERS, "is_impossible": False},
                        {"id": "b", "question": "Why?", "answers": [], "is_impossible": True},
                        {"id": 3, "question": "When?", "answers": [{"text": "1843", "answer_start": 54}]},
                    ],
                }
            ],
        }
    ],
}
QUESTIONS = (
    f'id,question,context,answer,answer_start\n1,Who?,"{CONTEXT}",Ada,0\n2,Why?,"{CONTEXT}",,\n3,When?,it 1843,1843,3\n'
)
SWAG = """sent1,sent2,ending0,ending1,ending2,ending3,label
A drum line,They,pass by.,sing.,sleep.,fall.,0
He,She,a,b,c,d,3
"""
DREAM = [
    [["W: Hello.", "M: Good bye."], [{"question": "Who?", "choice": ["W", "M", "both"], "answer": "both"}], "1-1"],
    [["W: Is it 5?"], [{"question": "When?", "choice": ["5", "6", "7"], "answer": "5"}], "1-2"],
]
QUIZ = "".join(
    json.dumps({"prompt": p, "choices": c, "label": y}) + "\n"
    for p, c, y in [("sky", ["blue", "red"], "blue"), ("", ["a", "b", "c"], 2)]
)
QUIZ_CSV = "prompt,a,b,c,label\nsky,blue,red,,blue\n2 + 2,3,4,5,1\n"
TRIVIA = {
    "Data": [
        {
            "Question": "Who?",
            "QuestionId": "q1",
            "Answer": {"Value": "Ada", "Aliases": ["Lovelace"]},
            "EntityPages": [{"Filename": "Ada.txt"}],
            "SearchResults": [{"Filename": "x.txt"}],
        }
    ]
}
COUNTS = [40, pytest.param(2_000, marks=pytest.mark.slow)]
READERS = {
    "squad": (read_squad, "dev.json", json.dumps(SQUAD)),
    "unlabelled squad": (lambda path: read_squad(path, labelled=False), "dev.json", json.dumps(SQUAD, indent=1)),
    "table": (read_questions, "questions.csv", QUESTIONS),
    "swag": (read_swag, "val.csv", SWAG),
    "swag without labels": (lambda path: read_prompts(path, "swag"), "test.csv", SWAG),
    "dream": (read_dream, "dream.json", json.dumps(DREAM)),
    "choices": (read_choices, "quiz.jsonl", QUIZ),
    "choices in columns": (lambda path: read_choices(path, choices=["a", "b", "c"]), "quiz.csv", QUIZ_CSV),
}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("reader", READERS)
def test_damaged_questions(tmp_path, reader, count):
    read, name, content = READERS[reader]
    found = check_reader(read, tmp_path / name, [content.encode()], count)
    assert found["read"] > 0 and found["refused"] > count / 4


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_triviaqa(tmp_path, count):
    (tmp_path / "wikipedia").mkdir()
    (tmp_path / "wikipedia" / "Ada.txt").write_bytes(b"In 1843 Ada Lovelace \xff wrote it. " * 30)

    def read(path):
        return list(triviaqa_questions(path, tmp_path))

    found = check_reader(read, tmp_path / "qa.json", [json.dumps(TRIVIA).encode()], count)
    assert found["read"] > 0 and found["refused"] > count / 4
