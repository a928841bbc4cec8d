"""Damaged files of text, 2,000 times a reader: read, or a ValueError or OSError that names the file."""

import json

import pytest
from helpers.fuzz import check_reader
from helpers.tiny_corpus import VOCABULARY

from kbert.corpus.documents import read_documents
from kbert.files import read_json, to_json
from kbert.tasks.labelled_text import distinct_labels, from_table
from kbert.tasks.multiple_choice import read_questions as read_choices
from kbert.tasks.span.questions import read_questions, read_squad
from kbert.tasks.table import iterate_json_lines, read_table
from kbert.tasks.tagging.readers import read_conll, read_tagged
from kbert.tasks.text_task import Classification
from kbert.text.learn_vocabulary import learn_vocabulary
from kbert.text.vocabulary import check_vocabulary, read_vocabulary


def json_lines(*rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


SETTINGS = [
    to_json({"vocabulary_size": 30522, "labels": ["a", "b"], "deep": {"of": [1.5, -2, None, True]}, "text": "ä\n"}),
    to_json({"names": {str(i): {"shape": [i, 2], "dtype": "float32"} for i in range(50)}}),
]
VOCABULARIES = ["\n".join(tokens) for tokens in (VOCABULARY, [*VOCABULARY, "é", "##中", "\u2028"])]
ROWS = [
    ("It is a charming journey.", "1", "4.5"),
    ('He said "no", twice', "0", "-1e3"),
    ("é 中 \U0001f600\u2028", "1", "0"),
]
CSV = "".join(f'"{t.replace(chr(34), chr(34) * 2)}",{y},{s}\n' for t, y, s in ROWS)
CSV = f'text,label,score\n{CSV}"a\nb",0,1\n'
TSV = "text\tlabel\tscore\r\n" + "".join(f"{t}\t{y}\t{s}\r\n" for t, y, s in ROWS)
JSONL = "".join(json.dumps({"text": t, "label": int(y), "score": float(s)}) + "\n" for t, y, s in ROWS)
CONLL = [
    "-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\nrejects VBZ I-VP O\nGerman JJ I-NP B-MISC\n. . O O\n\n"
    "Peter NNP I-NP B-PER\nBlackburn NNP I-NP I-PER\n",
    "U.N.\tS-ORG\r\nofficial\tO\r\n\r\nNew\tB-LOC\r\nYork\tE-LOC\r\n",
]
SPANS = json_lines(
    {"text": "Peter left Paris.", "spans": [{"start": 0, "end": 5, "type": "PER"}, [11, 16, "LOC"]]},
    {"text": "\U0001f600 née 中国", "spans": [{"start": 6, "end": 8, "type": "LOC"}], "by": "hand"},
    {"text": "none here", "spans": []},
)
WORDS = json_lines(
    {"words": ["EU", "rejects"], "tags": ["B-ORG", "O"], "document": 1},
    {"words": ["é", "中"], "tags": ["O", "B-LOC"], "document": 2},
)
LABELS = Classification(label_separator="|")
LISTS = 'text,label\na,"[\'x\', \'it is\']"\nb,"[""y"", ""z""]"\nc,[]\n'
CONTEXT = "Ada \U0001f600 wrote it. Ada Lovelace, née Byron, wrote it in 1843."
ANSWERS = [{"text": "Ada Lovelace", "answer_start": 16}, {"text": "Ada", "answer_start": 0}]
ASKED = [
    {"id": "a", "question": "Who?", "answers": ANSWERS, "is_impossible": False},
    {"id": "b", "question": "Why?", "answers": [], "is_impossible": True},
    {"id": 3, "question": "When?", "answers": [{"text": "1843", "answer_start": 54}]},
]
SQUAD = {"version": "2.0", "data": [{"title": "Ada", "paragraphs": [{"context": CONTEXT, "qas": ASKED}]}]}
WITH_ANSWERS = json_lines(
    {"question": "Who?", "context": CONTEXT, "id": "a", "answers": {"text": ["Ada"], "answer_start": [16.0]}},
    {"question": "When?", "context": CONTEXT, "id": "b", "answers": ANSWERS},
)
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
SKY, LETTERS = (
    {"prompt": "sky", "choices": ["blue", "red"], "label": "blue"},
    {"prompt": "", "choices": ["a", "b", "c"]},
)
QUIZ = json_lines(SKY, LETTERS | {"label": 2})
QUIZ_CSV = "prompt,a,b,c,label\nsky,blue,red,,blue\n2 + 2,3,4,5,1\n"


def read_labelled(path):
    """As a classifier's and as a regressor's data."""
    table = read_table(path, ("text", "label"), optional=("score",))
    from_table(table, text="text", label="label", labels=sorted(set(table["label"])))
    if "score" in table:
        from_table(table, text="text", label="score")
    return table


READERS = {  # what reads, the name of the file, sound contents
    "json": (read_json, "config.json", SETTINGS),
    "vocabulary": (read_vocabulary, "vocab.txt", VOCABULARIES),
    "csv": (read_labelled, "a.csv", [CSV]),
    "tsv": (read_labelled, "a.tsv", [TSV]),
    "jsonl": (read_labelled, "a.jsonl", [JSONL]),
    "json lines": (lambda path: list(iterate_json_lines(path)), "a.jsonl", [JSONL]),
    "tagged columns": (read_conll, "eng.train", CONLL),
    "spans": (read_tagged, "mine.jsonl", [SPANS]),
    "words and tags": (read_tagged, "mine.jsonl", [WORDS]),
    "lists of labels": (LABELS.read, "mine.csv", [LISTS]),
    "squad": (read_squad, "dev.json", [json.dumps(SQUAD)]),
    "unlabelled squad": (lambda path: read_squad(path, labelled=False), "dev.json", [json.dumps(SQUAD, indent=1)]),
    "questions": (read_questions, "questions.csv", [QUESTIONS]),
    "questions with answers": (read_questions, "questions.jsonl", [WITH_ANSWERS]),
    "swag": (lambda path: read_choices(path, "swag"), "val.csv", [SWAG]),
    "swag without labels": (lambda path: read_choices(path, "swag", label=None), "test.csv", [SWAG]),
    "dream": (lambda path: read_choices(path, "dream"), "dream.json", [json.dumps(DREAM)]),
    "choices": (read_choices, "quiz.jsonl", [QUIZ]),
    "choices in columns": (lambda path: read_choices(path, choices=["a", "b", "c"]), "quiz.csv", [QUIZ_CSV]),
}
REFUSED = {"json": 1 / 2, "vocabulary": 0}  # at least this fraction; of the others a quarter


@pytest.mark.parametrize("count", [40, pytest.param(2_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("reader", READERS)
def test_damaged_files(tmp_path, reader, count):
    read, name, contents = READERS[reader]
    found = check_reader(read, tmp_path / name, [content.encode() for content in contents], count)
    assert found["read"] > 0 and found["refused"] > count * REFUSED.get(reader, 1 / 4)


def test_the_labels_are_learnt_from_what_was_read(tmp_path):
    (tmp_path / "a.csv").write_text(CSV, encoding="utf-8")
    assert distinct_labels(read_labelled(tmp_path / "a.csv")["label"]) == ["0", "1"]


@pytest.mark.parametrize("count", [20, pytest.param(2_000, marks=pytest.mark.slow)])
def test_a_vocabulary_is_learned_from_damaged_text(tmp_path, count):
    """Learning takes lines as `read_documents` gives them; what it gives is a vocabulary."""

    def learn(path):
        lines = [sentence for document in read_documents(path, "lines") for sentence in document]
        try:
            tokens = learn_vocabulary(lines, 100)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        check_vocabulary(tokens)

    text = "The quick brown fox, the lazy dog and the naïve café 中文 .\n".encode() * 3
    found = check_reader(learn, tmp_path / "corpus.txt", [text], count)
    assert found["read"] > 0
