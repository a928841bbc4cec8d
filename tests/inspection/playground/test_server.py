"""The playground on a real port: two people at once, and the recipe that starts it."""

import concurrent.futures
import json
import threading
import urllib.error
import urllib.request

import pytest
from helpers.run_recipe import run_kbert

from kbert.inspection.playground.app import PlaygroundServer


def post(address, view, question, in_chunks=False):
    body = json.dumps(question).encode()
    body = iter([body]) if in_chunks else body  # of a length that is not said
    request = urllib.request.Request(f"{address}api/{view}", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_questions_over_a_socket(app):
    """Several at once, each in a thread of its own, and what is too large, with and without a length."""
    server = PlaygroundServer(app)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        words = ("good", "bad", "very", "never")
        questions = [{"model": "fill_mask", "text": f"the film is {word}", "seed": 1} for word in words]
        alone = [post(server.address, "masking", question) for question in questions]
        with concurrent.futures.ThreadPoolExecutor(len(words)) as people:
            together = list(people.map(lambda question: post(server.address, "masking", question), questions))
        assert together == alone and all(status == 200 for status, _ in alone)
        for in_chunks in (False, True):
            status, answer = post(server.address, "masking", {"text": "a" * (5 * 2**20)}, in_chunks)
            assert status == 413 and "Expected at most" in answer["error"]
    finally:
        server.close()
        thread.join()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(server.address, timeout=5)


def test_a_port_that_is_taken_or_none(app):
    server = PlaygroundServer(app)
    taken = int(server.address.rsplit(":", 1)[1].strip("/"))
    for port, host in ((taken, "127.0.0.1"), (70_000, "127.0.0.1"), (0, "203.0.113.7")):
        with pytest.raises(OSError, match=f"Expected a free port of this machine. Received: {host}, port {port}"):
            PlaygroundServer(app, host, port)
    server._server.server_close()


def test_the_recipe(home, monkeypatch, capsys):
    served = {}

    def serve(self):
        served["address"] = self.address
        thread = threading.Thread(target=self._server.handle_request)
        thread.start()
        served["models"] = json.load(urllib.request.urlopen(f"{self.address}api/models", timeout=60))
        thread.join()
        self._server.server_close()

    monkeypatch.setattr(PlaygroundServer, "serve", serve)
    models = [home / "models" / kind for kind in ("span", "pair")]
    run_kbert("playground", *models, "--vocabulary", home / "vocab.txt", "--port", 0)
    assert [model["name"] for model in served["models"]["models"]] == ["span", "pair"]
    assert served["address"].startswith("http://127.0.0.1:") and served["address"] in capsys.readouterr().out
