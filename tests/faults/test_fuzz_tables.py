"""Damaged tables, 2,000 times each: columns of strings, or an error that names the file."""

import json

import pytest
from helpers.fuzz import check_reader

from kbert.tasks.labelled_text import from_table
from kbert.tasks.labels import distinct_labels
from kbert.tasks.table import iterate_json_lines, read_table

ROWS = [
    ("It is a charming journey.", "1", "4.5"),
    ('He said "no", twice', "0", "-1e3"),
    ("é 中 \U0001f600\u2028", "1", "0"),
]
CSV = (
    "text,label,score\n"
    + "".join(f'"{t.replace(chr(34), chr(34) * 2)}",{y},{s}\n' for t, y, s in ROWS)
    + '"a\nb",0,1\n'
)
TSV = "text\tlabel\tscore\r\n" + "".join(f"{t}\t{y}\t{s}\r\n" for t, y, s in ROWS)
JSONL = "".join(json.dumps({"text": t, "label": int(y), "score": float(s)}) + "\n" for t, y, s in ROWS)
COUNTS = [40, pytest.param(2_000, marks=pytest.mark.slow)]


def read_all(path):
    """As a classifier's and as a regressor's data."""
    table = read_table(path, ("text", "label"), optional=("score",))
    from_table(table, text="text", label="label", labels=sorted(set(table["label"])))
    if "score" in table:
        from_table(table, text="text", label="score")
    return table


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(
    "name, content", [("a.csv", CSV), ("a.tsv", TSV), ("a.jsonl", JSONL)], ids="csv tsv jsonl".split()
)
def test_damaged_tables(tmp_path, name, content, count):
    found = check_reader(read_all, tmp_path / name, [content.encode()], count)
    assert found["read"] > 0 and found["refused"] > count / 4


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_json_lines(tmp_path, count):
    found = check_reader(lambda path: list(iterate_json_lines(path)), tmp_path / "a.jsonl", [JSONL.encode()], count)
    assert found["read"] > 0 and found["refused"] > count / 4


def test_the_labels_are_learnt_from_what_was_read(tmp_path):
    (tmp_path / "a.csv").write_text(CSV, encoding="utf-8")
    assert distinct_labels(read_all(tmp_path / "a.csv")["label"]) == ["0", "1"]
