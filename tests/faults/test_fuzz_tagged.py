"""Damaged files of tagged words, 2,000 times each: sentences, or an error that names the file."""

import json

import pytest
from helpers.fuzz import check_reader

from kbert.tasks.tagging.readers import read_conll
from kbert.tasks.tagging.span_reader import read_span_lines

CONLL = [
    "-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\nrejects VBZ I-VP O\nGerman JJ I-NP B-MISC\n. . O O\n\n"
    "Peter NNP I-NP B-PER\nBlackburn NNP I-NP I-PER\n",
    "U.N.\tS-ORG\r\nofficial\tO\r\n\r\nNew\tB-LOC\r\nYork\tE-LOC\r\n",
]
SPANS = "".join(
    json.dumps(line, ensure_ascii=False) + "\n"
    for line in (
        {"text": "Peter left Paris.", "spans": [{"start": 0, "end": 5, "type": "PER"}, [11, 16, "LOC"]]},
        {"text": "\U0001f600 née 中国", "spans": [{"start": 6, "end": 8, "type": "LOC"}], "by": "hand"},
        {"text": "none here", "spans": []},
    )
)
COUNTS = [40, pytest.param(2_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_columns(tmp_path, count):
    found = check_reader(read_conll, tmp_path / "eng.train", [text.encode() for text in CONLL], count)
    assert found["read"] > 0 and found["refused"] > count / 4


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_spans(tmp_path, count):
    found = check_reader(read_span_lines, tmp_path / "mine.jsonl", [SPANS.encode()], count)
    assert found["read"] > 0 and found["refused"] > count / 4
