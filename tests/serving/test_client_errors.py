"""What a client says of servers that are none, break off, or answer with nonsense: one error, in one line."""

import contextlib
import json
import re
import socket
import threading

import numpy as np
import pytest
from helpers.json_server import json_server
from helpers.run_recipe import run_kbert

from kbert.serving.client import ServingClient
from kbert.serving.rest_transport import ServingError


def _read_request(connection):
    """Reads one request to its end: closing a socket with bytes unread resets the connection under the answer."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536) or b"\r\n\r\n"
    head, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    while length and len(body) < int(length[1]):
        body += connection.recv(65536) or b" " * int(length[1])


@contextlib.contextmanager
def server(respond):
    """Calls `respond` with each connection once its request is read, then hangs up; gives its address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    _read_request(connection)
                    respond(connection)

    threading.Thread(target=serve, daemon=True).start()
    with listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def bytes_server(answer):
    return server(lambda connection: connection.sendall(answer))


@pytest.mark.parametrize(
    "sent, message, may_retry",
    [
        (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", "expected an answer in HTTP", False),  # how a gRPC port greets
        (b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"outputs": ["a', "broke its answer off", True),
        (b"HTTP/1.1 400 Bad\r\nContent-Length: 99\r\n\r\n{", "broke its answer off", True),
        (b"", "cannot be reached", True),
        (
            b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nhelp",
            r"answered 500: help \(signature 'serving_default'\)",
            False,
        ),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nwait", "answered 503: wait", True),
        (b"HTTP/1.1 504 Slow\r\nContent-Length: 4\r\n\r\nslow", "answered 504: slow", False),
    ],
)
def test_what_is_no_answer_in_http(sent, message, may_retry):
    with bytes_server(sent) as address, pytest.raises(ServingError, match=message) as raised:
        ServingClient(address, "m", timeout=20, tries=1).predict({"text": ["a"]})
    assert raised.value.may_retry is may_retry


def test_what_a_server_says_is_quoted_in_one_line_without_codes_for_the_terminal():
    said = "\x1b]0;title\x07\x1b[2J no\n\tmodel " + "x" * 9000
    answer = b"HTTP/1.1 400 Bad\r\n\r\n" + json.dumps({"error": said}).encode()
    with bytes_server(answer) as address:
        with pytest.raises(ServingError, match=r"answered \w+: \]0;title\[2J no model x+ \(signature") as raised:
            ServingClient(address, "m", timeout=20).predict({"text": ["a"]})
        assert len(str(raised.value)) < 2200


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_refused(code):
    with json_server({"outputs": [1]}) as (elsewhere, asked):
        sent = f"HTTP/1.1 {code} Moved\r\nLocation: {elsewhere}/x\r\nContent-Length: 0\r\n\r\n".encode()
        with bytes_server(sent) as address, pytest.raises(ServingError, match=rf"answered {code}: a redirect"):
            ServingClient(address, "m", timeout=20).predict({"text": ["a secret"]})
    assert not asked


def test_nested_json_is_an_error():
    for deep in (b"[" * 100_000, b'{"outputs":' * 100_000):
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(deep)
        with (
            bytes_server(head + deep) as address,
            pytest.raises(ServingError, match="expected JSON as other programs write it"),
        ):
            ServingClient(address, "m", timeout=20).predict({"text": ["a"]})


def test_huge_answers_are_not_read(monkeypatch):
    monkeypatch.setattr("kbert.serving.rest_transport.MAX_MESSAGE", 2**20)
    with bytes_server(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 2**21) as address:
        with pytest.raises(ServingError, match="expected an answer of at most 1 MB") as raised:
            ServingClient(address, "m", timeout=20).predict({"text": ["a"]})
    assert not raised.value.may_retry


def error_that_stalls(connection):
    connection.sendall(b"HTTP/1.1 400 Bad\r\nContent-Length: 99\r\n\r\n{")
    connection.recv(1)  # until the client gives up


def header_that_stalls(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-A: ")
    connection.recv(1)


@pytest.mark.parametrize("respond", [header_that_stalls, error_that_stalls])
def test_what_does_not_end_is_a_slow_server(respond):
    with server(respond) as address, pytest.raises(ServingError, match="did not answer within 0.2 s") as raised:
        ServingClient(address, "m", timeout=0.2).predict({"text": ["a"]})
    assert not raised.value.may_retry


def test_what_fills_rows_up_is_cut_off():
    sent = {"tokens": [["a", ""], ["b", "c"]], "count": [1, 2], "label": ["good", "bad"]}
    sent |= {"n_best_answers": [["x", "y", ""], ["z", "", ""]], "n_best_count": [2, 1]}
    with json_server({"outputs": sent}) as (address, _):
        answers = ServingClient(address, "m").predict({"text": ["a", "b"]})
    assert answers == sent | {"tokens": [["a"], ["b", "c"]], "n_best_answers": [["x", "y"], ["z"]]}


@pytest.mark.parametrize("count", ["1", -1, None, [1], 3])
def test_counts_that_are_none(count):
    with json_server({"outputs": {"tokens": [["a", ""]], "count": [count]}}) as (address, _):
        with pytest.raises(ServingError, match="expected numbers of entries as 'count'"):
            ServingClient(address, "m").predict({"text": ["a"]})


@pytest.mark.parametrize(
    "content", [{"outputs": None}, {"outputs": {}}, {"outputs": ["a"]}, {"outputs": {"x": 7, "y": [1, 2]}}, [], 5]
)
def test_answers_that_do_not_fit_the_rows(content):
    with json_server(content) as (address, _), pytest.raises(ServingError, match="expected (a|the)"):
        ServingClient(address, "m").predict({"text": ["a", "b"]})


@pytest.mark.parametrize("results", [5, [], [[["good"]]], [3]])
def test_classes_and_scores_that_are_none(results):
    with json_server({"results": results}) as (address, _):
        with pytest.raises(ServingError, match="expected (labels and scores|a list of 1 answers)"):
            ServingClient(address, "m").classify([{"text": "a"}])
        with pytest.raises(ServingError, match="expected a list of 2 answers"):
            ServingClient(address, "m").regress([{"text": "a"}, {"text": "b"}])


def test_the_recipe_says_it_in_one_line(capsys):
    with json_server({"outputs": {"label": ["good"]}}) as (address, _):
        with pytest.raises(SystemExit, match="error: .*expected a list of 2 answers"):
            run_kbert("query", "a", "b", "--url", address, "--model", "m")
    with pytest.raises(SystemExit, match="error: .*cannot be reached: .*Without a server, kbert predict answers"):
        run_kbert("query", "a", "--url", address, "--model", "m", "--tries", 1)


def test_a_single_output_gets_its_name_once_for_all():
    metadata = {"metadata": {"signature_def": {"signature_def": {"serving_default": {"outputs": {"score": {}}}}}}}
    with json_server({"outputs": [0.5]}, metadata) as (address, asked):
        client = ServingClient(address, "m", label="stable")
        assert [client.predict({"text": ["a"]}) for _ in range(2)] == [{"score": [0.5]}] * 2
    paths = [path for path in asked if isinstance(path, str)]
    assert paths == [f"/v1/models/m/labels/stable{end}" for end in (":predict", "/metadata", ":predict")]
    with json_server({"outputs": [0.5]}, {"metadata": []}) as (address, _):
        with pytest.raises(ServingError, match="expected the metadata of a model"):
            ServingClient(address, "m").predict({"text": ["a"]})


def test_missing_strings_are_empty():
    columns = {"prompt": np.array(["a", None, float("nan")], object), "choices": [["x", None], ["x"], ["y", "z"]]}
    with json_server({"outputs": {"choice": [0, 0, 0]}}) as (address, asked):
        ServingClient(address, "m").predict(columns)
    assert asked[0]["inputs"] == {"prompt": ["a", "", ""], "choices": [["x", ""], ["x", ""], ["y", "z"]]}


def test_unequal_numbers_of_choices_are_filled_up():
    columns = {"prompt": ["a", "b"], "choices": [["x", "y", "z"], ["x"]]}
    with json_server({"outputs": {"choice": [0, 0]}}) as (address, asked):
        client = ServingClient(address, "m")
        client.predict(columns)
        assert '["x", "", ""]' in client.curl(columns)
    assert asked[0]["inputs"] == {"prompt": ["a", "b"], "choices": [["x", "y", "z"], ["x", "", ""]]}
