"""Tables: every format reads the same rows, and whatever is wrong is named by file and line."""

import json

import pytest
from helpers.wrong_values import wrong_inputs

from kbert.tasks.in_memory import table_of
from kbert.tasks.table import iterate_table, read_table, table_columns

ROWS = [("It is a charming journey.", "1"), ('He said "no, never" — naïve', "0"), ("日本語のテキスト", "10")]


def _file(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def _csv(rows):
    def cell(value):
        return '"' + value.replace('"', '""') + '"' if any(c in value for c in ',"\n') else value

    return "\n".join(",".join(cell(v) for v in row) for row in [("text", "label"), *rows]) + "\n"


def _tsv(rows):
    return "\n".join("\t".join(row) for row in [("text", "label"), *rows]) + "\n"


def _jsonl(rows):
    return "".join(json.dumps({"text": t, "label": n}) + "\n" for t, n in rows)


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("name, write", [("a.csv", _csv), ("a.TSV", _tsv), ("a.jsonl", _jsonl), ("a.ndjson", _jsonl)])
def test_every_format_gives_the_same_columns(tmp_path, name, write, newline, bom):
    path = _file(tmp_path, name, bom + write(ROWS).replace("\n", newline).encode())
    table = read_table(path)
    assert table == {"text": [t for t, _ in ROWS], "label": [n for _, n in ROWS]}
    assert table.lines == ([1, 2, 3] if write is _jsonl else [2, 3, 4])
    assert list(read_table(path, ["label"])) == ["label"]


def test_csv_cells_may_hold_separators_and_line_breaks_and_lines_are_still_right(tmp_path):
    table = read_table(_file(tmp_path, "a.csv", 'text,label\n"a\nb, ""c""",1\n\n  \nd,0\n'))
    assert table["text"] == ['a\nb, "c"', "d"]
    assert table.where(1) == f"{tmp_path / 'a.csv'}, line 6"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "name, lines, expected",
    [
        ("a.csv", ["a", "x", '""', "z"], {"a": ["x", "", "z"]}),
        ("a.csv", ["a", "x", '"  "', "z"], {"a": ["x", "  ", "z"]}),
        ("a.csv", ["a", "", "x", "", " ", "z", ""], {"a": ["", "x", "", "", "z"]}),  # as spreadsheets write a column
        ("a.tsv", ["a", "x", "", "z", "", ""], {"a": ["x", "", "z"]}),
        (
            "a.csv",
            ["a,b", "x,1", ",", '"",""', " , ", "", "z,2"],
            {"a": ["x", "", "", " ", "z"], "b": ["1", "", "", " ", "2"]},
        ),
        ("a.csv", ["a;b", "x;1", ";", "z;2"], {"a": ["x", "", "z"], "b": ["1", "", "2"]}),
        ("a.csv", ["a\tb", "x\t1", "\t", "z\t2"], {"a": ["x", "", "z"], "b": ["1", "", "2"]}),
        ("a.tsv", ["a\tb", "x\t1", "\t", "", "  ", "z\t2"], {"a": ["x", "", "z"], "b": ["1", "", "2"]}),
        ("a.jsonl", ['{"a": "x"}', '{"a": ""}', "", '{"a": null}'], {"a": ["x", "", ""]}),
    ],
)
def test_rows_of_empty_cells_are_rows(tmp_path, name, lines, expected, end):
    path = _file(tmp_path, name, end.join([*lines, ""]))
    table = read_table(path, list(expected))
    assert table == expected
    rows = [dict(zip(expected, row, strict=True)) for row in zip(*expected.values(), strict=True)]
    assert [row for _, row in iterate_table(path, list(expected))] == rows
    for line, text in zip(table.lines, expected["a"], strict=True):
        assert text in lines[line - 1]


def test_tsv_has_no_quoting(tmp_path):
    table = read_table(_file(tmp_path, "a.tsv", 'text\tlabel\n" never closed\t1\n""\t0\n'))
    assert table["text"] == ['" never closed', '""']


def test_only_line_feeds_end_a_line(tmp_path):
    odd = "a\x0bb\x0cc\x85d\u2028e\u2029f\x1cg\0h"
    assert read_table(_file(tmp_path, "a.tsv", f"text\tlabel\n{odd}\t1"))["text"] == [odd]
    assert read_table(_file(tmp_path, "a.csv", f"text,label\n{odd},1"))["text"] == [odd]
    assert read_table(_file(tmp_path, "a.jsonl", json.dumps({"text": odd}, ensure_ascii=False)))["text"] == [odd]


def test_the_last_line_needs_no_end(tmp_path):
    assert read_table(_file(tmp_path, "a.csv", "text,label\na,1"))["label"] == ["1"]
    assert read_table(_file(tmp_path, "a.csv", 'text,label\na,"1"'))["label"] == ["1"]


def test_a_megabyte_in_a_cell(tmp_path):
    import csv

    limit = csv.field_size_limit()
    long = "word " * 200_000
    assert read_table(_file(tmp_path, "a.csv", _csv([(long, "1")])))["text"] == [long]
    assert csv.field_size_limit() == limit


def test_json_values_are_those_of_rows_in_memory(tmp_path):
    values = [1, 1.5, 2.0, True, "x", None, float("nan"), "1.50", 12345678901234567890]
    path = _file(tmp_path, "a.jsonl", "".join(json.dumps({"label": value}) + "\n" for value in values))
    expected = ["1", "1.5", "2", "True", "x", "", "", "1.50", "12345678901234567890"]
    assert read_table(path)["label"] == table_of({"label": values}, ["label"])["label"] == expected


def test_a_header_may_be_given(tmp_path):
    path = _file(tmp_path, "a.tsv", "gj04\t1\t\tOur friends.\n")
    table = read_table(path, ["text", "label"], header=["source", "label", "original", "text"])
    assert table == {"text": ["Our friends."], "label": ["1"]}
    assert table.lines == [1]


def test_what_is_wrong_is_named(tmp_path):
    def read(file):
        name, content, *columns = file
        read_table(_file(tmp_path, name, content), *columns)

    stars = ["text", "stars"]
    wrong_inputs(
        read,
        (("a.csv", ""), "a.csv is empty"),
        (("a.csv", " \n\r\n"), "a.csv is empty"),
        (("a.jsonl", "\n"), "a.jsonl is empty"),
        (("a.csv", "text,label\n"), "a header and no rows"),
        (("a.csv", "text,label\na,1\n", stars), r"a.csv, line 1: .*\['text', 'stars'\].*'label'\].*\['stars'\]"),
        (("a.jsonl", '{"text": "a"}\n{"txt": "a"}\n', ["text"]), r"a.jsonl, line 2: .*\['text'\].*\['txt'\]"),
        (("a.csv", "text,text,label\na,b,1\n", ["text"]), "more than once: .'text'"),
        (("a.csv", "text,label\na,1\nb,c,1\n"), "a.csv, line 3: expected 2 cells .text, label.. Received: 3"),
        (("a.tsv", "text\tlabel\n\na\t1\nb\n"), "a.tsv, line 4: expected 2 cells .* Received: 1"),
        (("a.csv", 'text,label\na,1\n"b,1\nc,1\n'), "a.csv, line 3: not a CSV row"),
        (("a.csv", 'text,label\n"a" b,1\n'), "a.csv, line 2: not a CSV row"),
        (("a.csv", "text,label\ra,1\r"), "a.csv, line 1: not a CSV row"),
        (("a.csv", b"text,label\na,1\nna\xefve,0\n"), "a.csv, line 3: invalid UTF-8. Received: byte 0xef"),
        (("a.csv", "text,label\na,1\n".encode("utf-16")), "line 1: this file is UTF-16"),
        (("a.jsonl", '{"text": "a"}\n{"text": }\n'), "a.jsonl, line 2: not JSON"),
        (("a.jsonl", '{"text": "a"}\n' + "[" * 200_000), "a.jsonl, line 2: expected JSON as other programs write it"),
        (("a.jsonl", "[1, 2]\n"), "a.jsonl, line 1: expected one JSON object"),
        (("a.jsonl", '{"text": ["a"]}\n'), r"a.jsonl, line 1: 'text' must be a string or a number. .* \['a'\]"),
        (("a.xlsx", "PK\x03\x04\0"), "Received: .*a.xlsx.* another format. Read it with pandas and give the"),
        (("a.json", '[{"text": "a"}]'), "Received: .*a.json.* Read it with pandas and give the DataFrame"),
        (("a.txt", "text;label\na;1\n", stars), r"a.txt, line 1: .*Received: \['text', 'label'\]"),
    )


@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found(tmp_path, separator, name):
    rows = [["text", "label, or none", "n"], ["a, b", "1", "2"], ["c; d | e", "0", "3"]]
    content = "\n".join(separator.join(f'"{cell}"' for cell in row) for row in rows)
    path = _file(tmp_path, name, content)
    expected = {"text": ["a, b", "c; d | e"], "n": ["2", "3"]}
    assert read_table(path, ["text", "n"]) == expected
    assert table_columns(path) == rows[0] and list(read_table(path)) == rows[0]
    assert [row for _, row in iterate_table(path, ["text"])] == [{"text": "a, b"}, {"text": "c; d | e"}]
    assert read_table(path, ["x"], header=["x", "y", "z"])["x"] == ["text", *expected["text"]]


def test_a_missing_file_is_named(tmp_path):
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises((FileNotFoundError, ValueError), match=tmp_path.name):
            read_table(path)


def test_files_of_similar_names_are_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reviews.csv").write_text("text\na\n")
    with pytest.raises(FileNotFoundError, match=r"'reviewz.csv', which is not a file. In . there is: reviews.csv$"):
        read_table("reviewz.csv")
    with pytest.raises(FileNotFoundError, match="which is not a file$"):
        read_table("qqqq.tsv")


def test_short_rows_are_an_error_or_left_out(tmp_path):
    path = _file(tmp_path, "a.tsv", "text\tlabel\na\t1\nb\nc\t0\n")
    with pytest.raises(ValueError, match="a.tsv, line 3: expected 2 cells"):
        read_table(path)
    table = read_table(path, short_rows="skip")
    assert (table["text"], table.lines, table.skipped) == (["a", "c"], [2, 4], 1)
