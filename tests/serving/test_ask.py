"""Rows of a file for a server."""

import pytest

from kbert.serving.ask import read_json_rows
from kbert.serving.client import ServingClient


def test_a_line_that_is_not_utf_8_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "a"}\n\n{"text": "\xff"}\n')
    rows = read_json_rows(path)
    assert next(rows) == {"text": "a"}
    with pytest.raises(ValueError, match="rows.jsonl, line 3: invalid UTF-8 at byte 10"):
        next(rows)


def test_a_client_without_tries_is_refused_when_it_is_made():
    with pytest.raises(ValueError, match="ServingClient: `tries` must be a positive integer. Received: 0"):
        ServingClient("http://localhost:8501", "reviews", tries=0)


@pytest.mark.parametrize("column", ["a film", ["a film", ["a"]], [["a"], "a film"]])
def test_columns_that_are_not_lists_are_refused(column):
    """Strings beside lists were left out of the request, so that answers belonged to other rows."""
    client = ServingClient("http://localhost:8501", "reviews")
    with pytest.raises(ValueError, match="ServingClient: `text` must be a list of strings.* Received: "):
        client.curl({"text": column})
