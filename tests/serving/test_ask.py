"""Rows of a file for a server, and what a client is given otherwise."""

import functools

import numpy as np
import pytest
from helpers.wrong_values import wrong_inputs, wrong_values

from kbert.serving.client import ServingClient, read_json_rows


def test_a_line_that_is_not_utf_8_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "a"}\n\n{"text": "\xff"}\n')
    rows = read_json_rows(path)
    assert next(rows) == {"text": "a"}
    with pytest.raises(ValueError, match="rows.jsonl, line 3: invalid UTF-8 at byte 10"):
        next(rows)


_URL = "expected http://host:8501 or https://.* Received: "


def test_arguments_of_a_client():
    wrong_values(
        functools.partial(ServingClient, **{"url": "http://localhost:8501", "model": "reviews"}),
        ("version", 2**70, f"at most {2**63 - 1}, as servers take int64. Received: {2**70}"),
        ("version", "1", "a positive integer. Received: '1'"),
        ({"version": 1, "label": "stable"}, r"give a version or a label. Received: \(1, 'stable'\)"),
        ("model", "", "a string that is not empty. Received: ''"),
        ("label", 3, "a string that is not empty. Received: 3"),
        ("url", 3, "a string that is not empty. Received: 3"),
        ({"url": "localhost:8501"}, f"{_URL}'localhost:8501'"),
        ({"url": "http://localhost:http"}, f"{_URL}'http://localhost:http' .*[Pp]ort"),
        ({"url": "grpc://localhost:8500"}, f"{_URL}'grpc://localhost:8500'"),
        ({"url": "http://[::1"}, f"{_URL}'http://.::1' .*IPv6"),
        ("tries", 0, "a positive integer. Received: 0"),
        ("timeout", 0, r"a number in \(0, 1000000\]. Received: 0"),
        ("timeout", 1e10, r"a number in \(0, 1000000\]. Received: 1000"),
        ({"url": "https://host", "client_certificate": "pem"}, r"`client_certificate` must be two files.* 'pem'"),
        ({"root_certificates": "a.pem"}, "certificates are for https://. Received: 'http://localhost"),
        owner="ServingClient: ",
    )


def test_rows_are_checked_before_they_are_sent():
    client = ServingClient("http://localhost:1", "reviews", tries=1)
    for call in (client.predict, client.curl):
        wrong_inputs(
            call,
            ({"text": ["a"], "text_pair": ["b", "c"]}, "expected columns of one length. .* {'text': 1, 'text_pair'"),
            ({"text": ["a", 3]}, r"`text`\[1\]: expected str or bytes. Received: 3"),
            ({"text": np.array(["a", 3], object)}, r"`text`\[1\]: expected str or bytes. Received: 3"),
            ({"choices": [["a", 3]]}, r"`choices`\[0\]\[1\]: expected str or bytes. Received: 3"),
            ({"text": None}, "`text` must be a list of strings.* Received: None"),
            ({"text": "a film"}, "`text` must be a list of strings.* Received: "),
            ({"text": ["a film", ["a"]]}, "`text` must be a list of strings.* Received: "),  # of other rows
            ({"text": [["a"], "a film"]}, "`text` must be a list of strings.* Received: "),
            ({}, "expected a dict of column → list of strings. Received: {}"),
            (["a"], r"expected a dict of column → list of strings. Received: \['a'\]"),
            owner="ServingClient: ",
        )
    for call in (client.classify, client.regress, lambda rows: client.curl(rows, verb="classify")):
        wrong_inputs(
            call,
            ({"text": "a"}, "expected a list of dicts of column → string"),
            (["a"], r"examples\[0\]: expected a dict of column → string. Received: 'a'"),
            ([{"text": "a"}, {"text": None}], r"examples\[1\], `text`: expected str or bytes. Received: None"),
            owner="ServingClient: ",
        )
    with pytest.raises(ValueError, match="ServingClient: `signature` must be a string that is not empty. Received: 3"):
        client.predict({"text": ["a"]}, 3)


SENT = '"inputs": {"text": ["a", "é"]}'


@pytest.mark.parity
def test_frames_are_sent_as_lists():
    client = ServingClient("http://localhost:8501", "reviews")
    frame = pytest.importorskip("pandas").DataFrame({"text": ["a", "é"]})
    assert SENT in client.curl(frame) and SENT in client.curl({"text": frame["text"]})


def test_arrays_and_bytes_are_sent_as_lists():
    client = ServingClient("http://localhost:8501", "reviews")
    columns = [("a", "é"), np.array(["a", "é"])]
    if hasattr(np.dtypes, "StringDType"):  # of NumPy 2
        columns.append(np.array(["a", "é"], np.dtypes.StringDType()))
    for column in columns:
        assert SENT in client.curl({"text": column})
    assert '{"c": [["a", "b"], ["c", ""]]}' in client.curl({"c": [np.array(["a", "b"]), ["c"]]})
    assert '{"text": [{"b64": "/w=="}]}' in client.curl({"text": [b"\xff"]})
