"""What a client says of servers that are none, break off, or answer with nonsense: one error, in one line."""

import contextlib
import json
import re
import socket
import threading
import time
from concurrent import futures

import grpc
import numpy as np
import pytest
import tensorflow as tf
from helpers.json_server import json_server
from helpers.run_recipe import run_kbert
from tensorflow_serving.apis import classification_pb2, predict_pb2, regression_pb2

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


def test_what_a_server_says_is_quoted_in_one_line_without_codes_for_the_terminal(grpc_server):
    said = "\x1b]0;title\x07\x1b[2J no\n\tmodel " + "x" * 9000
    answer = b"HTTP/1.1 400 Bad\r\n\r\n" + json.dumps({"error": said}).encode()
    client, answers = grpc_server
    answers.append(lambda context: context.abort(grpc.StatusCode.INTERNAL, said[:100]))
    with bytes_server(answer) as address:
        for asked in (ServingClient(address, "m", timeout=20), client):
            with pytest.raises(ServingError, match=r"answered \w+: \]0;title\[2J no model x+ \(signature") as raised:
                asked.predict({"text": ["a"]})
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
        with bytes_server(head + deep) as address, pytest.raises(ServingError, match="nested 100 levels"):
            ServingClient(address, "m", timeout=20).predict({"text": ["a"]})


def test_huge_answers_are_not_read(monkeypatch):
    monkeypatch.setattr("kbert.serving.rest_transport.MAX_MESSAGE", 2**20)
    with bytes_server(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 2**21) as address:
        with pytest.raises(ServingError, match="expected an answer of at most 1 MB") as raised:
            ServingClient(address, "m", timeout=20).predict({"text": ["a"]})
    assert not raised.value.may_retry


def answer_without_end(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(6000):
        connection.sendall(b" ")
        time.sleep(0.05)


def error_that_stalls(connection):
    connection.sendall(b"HTTP/1.1 400 Bad\r\nContent-Length: 99\r\n\r\n{")
    connection.recv(1)  # until the client gives up


def dribble(start, piece):
    """Sends a piece again and again, for 30 s at most: each comes well before the timeout."""

    def respond(connection):
        connection.sendall(start)
        for _ in range(300):
            connection.sendall(piece)
            time.sleep(0.1)

    return respond


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
DRIBBLES = {
    "status": dribble(b"HTTP/1.1 200 O", b"K"),
    "header": dribble(b"HTTP/1.1 200 OK\r\nX-A: ", b"a"),
    "headers": dribble(b"HTTP/1.1 200 OK\r\n", b"X-A: a\r\n"),
    "100": dribble(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "chunks": dribble(CHUNKED, b"1\r\n \r\n"),
    "chunk size": dribble(CHUNKED, b"0"),
    "trailer": dribble(CHUNKED + b"0\r\n", b"X-A: a\r\n"),
    "body": dribble(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", b" "),
    "error": dribble(b"HTTP/1.1 500 No\r\nContent-Length: 999\r\n\r\n", b" "),
    "redirect": dribble(b"HTTP/1.1 302 No\r\nLocation: /x\r\nContent-Length: 999\r\n\r\n", b" "),
}


@pytest.mark.parametrize("place", DRIBBLES)
def test_a_server_that_sends_its_answer_in_drops(place):
    """The timeout is for the answer as a whole; a hundred of these would have lasted for minutes."""
    with server(DRIBBLES[place]) as address:
        start = time.monotonic()
        with pytest.raises(ServingError, match="did not answer within 0.5 s"):
            ServingClient(address, "m", timeout=0.5).predict({"text": ["a"]})
        assert time.monotonic() - start < 2


@pytest.mark.parametrize("respond, seconds", [(answer_without_end, 0.5), (error_that_stalls, 0.2)])
def test_what_does_not_end_is_a_slow_server(respond, seconds):
    with server(respond) as address, pytest.raises(ServingError, match=f"did not answer within {seconds} s"):
        ServingClient(address, "m", timeout=seconds).predict({"text": ["a"]})


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


def test_unequal_numbers_of_choices_are_filled_up():
    columns = {"prompt": ["a", "b"], "choices": [["x", "y", "z"], ["x"]]}
    with json_server({"outputs": {"choice": [0, 0]}}) as (address, asked):
        client = ServingClient(address, "m")
        client.predict(columns)
        assert '["x", "", ""]' in client.curl(columns)
    assert asked[0]["inputs"] == {"prompt": ["a", "b"], "choices": [["x", "y", "z"], ["x", "", ""]]}


@pytest.fixture
def grpc_server():
    """(client, list whose last entry is what the server answers)"""
    answers = [b""]

    class Handler(grpc.GenericRpcHandler):
        def service(self, call):
            def answer(request, context):
                return answers[-1](context) if callable(answers[-1]) else answers[-1]

            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers([Handler()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield ServingClient(f"grpc://127.0.0.1:{port}", "m", timeout=30), answers
    server.stop(None).wait()


def test_a_short_answer_over_grpc_does_not_take_much_memory(grpc_server):
    client, answers = grpc_server
    answers.append(bytes.fromhex("0a1b 0a05 6c6162656c 1212 0801 1208 1206 08 8080808001 2a04 0000803f"))
    with pytest.raises(ServingError, match=r"expected at most as many values .*268435456.*, 18 bytes"):
        client.predict({"text": ["a"]})


def test_malformed_answers_over_grpc(grpc_server):
    predicted = predict_pb2.PredictResponse()
    predicted.outputs["label"].CopyFrom(tf.make_tensor_proto(["good", "bad"]))
    predicted.outputs["score"].CopyFrom(tf.make_tensor_proto(np.ones((2, 3), "float32")))
    classified = classification_pb2.ClassificationResponse()
    for _ in range(2):
        classified.result.classifications.add().classes.add(label="good", score=1)
    regressed = regression_pb2.RegressionResponse()
    for value in (1, 2):
        regressed.result.regressions.add(value=value)
    client, answers = grpc_server
    calls = [
        (predicted.SerializeToString(), lambda: client.predict({"text": ["a", "b"]})),
        (classified.SerializeToString(), lambda: client.classify([{"text": "a"}, {"text": "b"}])),
        (regressed.SerializeToString(), lambda: client.regress([{"text": "a"}, {"text": "b"}])),
    ]
    found = []
    for message, call in calls:
        answers.append(message)
        found.append(call())
        answers.append(b"\xff\xff nonsense")
        with pytest.raises(ServingError, match="expected a message of TensorFlow Serving"):
            call()
    assert found == [{"label": ["good", "bad"], "score": [[1.0] * 3] * 2}, [[("good", 1.0)]] * 2, [1.0, 2.0]]
    answers.append(b"\x0a\x04\x0a\x02\x0d\x00")  # a number that is cut off
    with pytest.raises(ServingError, match="expected"):
        client.regress([{"text": "a"}])
    rng = np.random.default_rng(0)
    refused = 0
    for number in range(300):
        message, call = calls[number % 3]
        broken = bytearray(message)
        for place in rng.integers(0, len(broken), rng.integers(1, 4)):
            broken[place] = rng.integers(256)
        answers.append(bytes(broken[: rng.integers(1, len(broken) + 1)]))
        try:
            call()
        except ServingError:
            refused += 1
    assert refused > 100
