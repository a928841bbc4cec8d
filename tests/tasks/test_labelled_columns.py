"""Files of labels of any kind, as columns."""

import pytest
from helpers.wrong_values import wrong_inputs

from kbert.tasks.tagging.readers import read_labelled_columns

CONLL = """-DOCSTART- -X- O O

EU NNP I-NP I-ORG
rejects VBZ I-VP O

Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
"""
CONLLU = """# text = They buy
1\tThey\tthey\tPRON\tPRP\t_\t2\tnsubj
1-2\tTheybuy\t_\t_\t_\t_\t_\t_
1.1\t_\t_\t_\t_\t_\t_\t_
2\tbuy\tbuy\tVERB\tVBP\t_\t0\troot

1\tNo\tno\tINTJ\tUH\t_\t0\troot
"""


def write(path, text):
    path.write_text(text, "utf-8")
    return path


def test_columns_of_words(tmp_path):
    found = read_labelled_columns(write(tmp_path / "eng.train", CONLL), {"pos": 1, "tags": -1})
    assert found == {
        "words": [["EU", "rejects"], ["Peter", "Blackburn"]],
        "pos": [["NNP", "VBZ"], ["NNP", "NNP"]],
        "tags": [["B-ORG", "O"], ["B-PER", "I-PER"]],
    }
    assert set(read_labelled_columns(tmp_path / "eng.train")) == {"words", "tags"}


def test_universal_dependencies(tmp_path):
    found = read_labelled_columns(write(tmp_path / "en.conllu", CONLLU), {"pos": 3, "heads": 6})
    assert found == {"words": [["They", "buy"], ["No"]], "pos": [["PRON", "VERB"], ["INTJ"]], "heads": [[1, -1], [-1]]}


def test_lines_between_words_do_not_change_their_numbers(tmp_path):
    path = write(tmp_path / "en.conllu", CONLLU.replace("VBP\t_\t0", "VBP\t_\tx"))
    with pytest.raises(ValueError, match="en.conllu, line 5: expected the number of a word's head"):
        read_labelled_columns(path, {"heads": 6})


def test_a_document_ends_a_sentence(tmp_path):
    path = write(tmp_path / "words.txt", "a O\n-DOCSTART- O\nb O\n")
    assert read_labelled_columns(path)["words"] == [["a"], ["b"]]


def test_tables_of_texts(tmp_path):
    path = write(tmp_path / "a.csv", "review,stars,other\ngood,5,x\nbad,1,y\n")
    found = read_labelled_columns(path, text="review", label="stars")
    assert found == {"text": ["good", "bad"], "stars": ["5", "1"]}
    assert read_labelled_columns(path, text="review", label="stars", text_pair="other")["text_pair"] == ["x", "y"]


def test_wrong_files_are_named(tmp_path):
    path = tmp_path / "words.txt"
    wrong_inputs(
        lambda file: read_labelled_columns(write(path, file[0]), file[1]),
        ((CONLL, {"pos": 4}), "line 3: expected 'pos' in column 4 .* Received: 4 columns"),
        ((CONLL, {"tags": 1}), "expected O or a tag like B-PER .*; give other labels another name than 'tags'"),
        (("a B-X\nb E-X\nc I-X\n", {"tags": 1}), "line 3: BIOES allows I-X only after .* Received: I-X after E-X"),
        (("a 1\nb 3\n", {"heads": 1}), r"line 2: expected .* a word's head, from 0 \(the root\) to 2. Received: '3'"),
        (("a x\n", {"heads": 1}), "line 1: .* Received: 'x'"),
        (("\n-DOCSTART- O\n", {"tags": 1}), "expected words in columns"),
        owner=f"{path}.*",
    )
