"""The application answers its own page alone, with files of the page and JSON; wrong questions get a sentence.

Also on a real port, and started by the command.
"""

import concurrent.futures
import json
import re
import threading
import urllib.error
import urllib.request

import keras
import numpy as np
import pytest
from helpers.playground import asking
from helpers.run_recipe import run_kbert
from helpers.slow_but import slow_but
from helpers.tiny_bert import randomise, tiny_config, tiny_tokenizer
from werkzeug.test import Client

import kbert
from kbert.inspection.playground import app as module
from kbert.inspection.playground.app import PlaygroundApp, PlaygroundServer
from kbert.pipelines.settings import ModelSettings


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The directory of a page with a file outside of it, and a link to that."""
    static = tmp_path / "static"
    (static / "views").mkdir(parents=True)
    (static / "index.html").write_text("<!DOCTYPE html><title>kbert</title>")
    (static / "views" / "masking.js").write_text("export default 1;")
    (static / ".hidden").write_text("secret")
    (tmp_path / "secret.js").write_text("secret")
    (static / "link.js").symlink_to(tmp_path / "secret.js")
    (static / "linked").symlink_to(tmp_path)
    monkeypatch.setattr(module, "STATIC", static)
    return static


def test_the_page_and_its_files(app, page):
    client = Client(app)
    for path in ("/", "/index.html"):
        response = client.get(path)
        assert response.status_code == 200 and response.mimetype == "text/html" and "kbert" in response.text
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    response = client.get("/views/masking.js")
    assert response.mimetype == "text/javascript" and response.text == "export default 1;"
    assert client.head("/").data == b"" and client.post("/", json={}).status_code == 405


PATHS = (
    "/../secret.js /views/../../secret.js /%2e%2e/secret.js /..%2fsecret.js /link.js /linked/secret.js /.hidden /views "
    "//etc/passwd /etc/passwd /file:///etc/passwd /views/ /app.py /../app.py /\x00 /none/../index.html /index.html/"
)


@pytest.mark.parametrize("path", [*PATHS.split(" "), "/" + "a" * 5000])
def test_other_files_are_not_served(app, page, path):
    response = Client(app).get("http://localhost" + path)
    assert response.status_code == 404 and "secret" not in response.json["error"].replace("secret.js", "")
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_the_real_page_is_there(app):
    """Files that the page needs are those beside the application, of types that it serves."""
    files = [path.relative_to(module.STATIC).as_posix() for path in module.STATIC.rglob("*") if path.is_file()]
    assert {"index.html", "index.js"} <= set(files)
    for name in files:
        assert Client(app).get(f"/{name}").status_code == 200, name


# Who may ask


@pytest.mark.parametrize("host", ["localhost", "localhost:6007", "127.0.0.1:1", "[::1]:80", "[::1]", "LOCALHOST"])
def test_names_of_this_machine_may_be_asked(app, host):
    assert Client(app).get("/api/models", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:6007", "127.0.0.1.evil.example", "10.0.0.1", "localhost.", ""]
)
def test_other_hosts_are_refused(app, host):
    for path in ("/", "/api/models"):
        response = Client(app).get(path, headers={"Host": host})
        assert response.status_code == 403 and "Expected a request to" in response.json["error"]


def test_hosts_that_are_served(home):
    def status(asked, **options):
        return Client(PlaygroundApp(**options)).get("/none.js", headers={"Host": asked}).status_code

    assert status("box.example:80", host="box.example") == 404 and status("box.example", host="10.0.0.7") == 403
    assert status("10.0.0.7:6007", host="10.0.0.7") == 404 and status("10.0.0.8", host="10.0.0.7") == 403
    for everywhere in ("0.0.0.0", "::"):  # any address of this machine, but no name that somebody else chose
        assert status("10.0.0.8", host=everywhere) == status("[fe80::1]:80", host=everywhere) == 404
        assert status("evil.example", host=everywhere) == 403
    assert status("proxy.example", hosts=["proxy.example"]) == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://localhost:8080"},
        {"Origin": "null"},
        {"Origin": "http://localhost.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_origins_are_refused(app, headers):
    client = Client(app)
    for response in (
        client.get("/api/models", headers=headers),
        client.post("/api/masking", json={"text": "a"}, headers=headers),
    ):
        assert response.status_code == 403 and "Expected a request of this page" in response.json["error"]
        assert "Access-Control-Allow-Origin" not in response.headers
        assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    own = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/api/masking", json={"text": "a", "model": None}, headers=own).status_code == 200


def test_a_proxy_may_have_another_host():
    client = Client(PlaygroundApp(hosts=["proxy.example"]))
    headers = {"Host": "localhost:6006", "Origin": "https://proxy.example"}
    assert client.get("/api/nothing", headers=headers).status_code == 404


# What may be asked


@pytest.mark.parametrize(
    "method, path, status",
    [
        ("post", "/api/models", 405),
        ("get", "/api/masking", 405),
        ("put", "/api/masking", 405),
        ("get", "/api", 404),
        ("post", "/api/", 404),
        ("post", "/api/__class__", 404),
        ("get", "/api/models/../models", 404),
    ],
)
def test_what_there_is_not(app, method, path, status):
    response = getattr(Client(app), method)(path)
    assert response.status_code == status and response.json["error"].startswith("Expected ")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_only_json_is_taken(app, kind):
    response = Client(app).post("/api/masking", data='{"text": "a"}', content_type=kind)
    assert response.status_code == 415 and "application/json" in response.json["error"]


BODIES = ["", "{", "nonsense", '{"text": "a"', "[]", "null", '"text"', "3", '{"text": NaN}', '{"text": "\\ud800"}']
BODIES += ['{"text": "a", "mask_rate": Infinity}', "[" * 5000, '{"a":' * 3000, '{"seed": 1' + "0" * 5000 + "}"]
BODIES += [b"\xff\xfe\x00", b"\x80{}"]


@pytest.mark.parametrize("body", BODIES)
def test_what_is_no_question(app, body):
    response = Client(app).post("/api/masking", data=body, content_type="application/json")
    assert response.status_code == 400 and response.mimetype == "application/json"
    said = response.json["error"]
    assert (
        re.search("xpected|not JSON|may be nested|invalid UTF-8", said) and "Traceback" not in said and len(said) < 600
    )


WRONG = {
    "text": [None, 3, True, [], {}, ["a"]],
    "text_pair": [3, False, []],
    "model": [3, [], {}, "nobody", "../fill_mask", "/etc", ""],
    "mask_rate": ["0.15", -0.1, 1.5, 10**400, True, [], "nan"],
    "mask_token_rate": [2, "x", -1e-9],
    "random_token_rate": [0.5, 1.01],
    "whole_word": [0, "true", 1],
    "seed": [1.5, "1", 2**63, -(2**70), 10**300, True],
    "max_predictions": [0, -1, 1.5, 10**9, "3"],
    "unknown": [1],
}


@pytest.mark.parametrize("name, value", [(name, value) for name, values in WRONG.items() for value in values])
def test_wrong_values_are_named(ask, name, value):
    question = {"model": "fill_mask", "text": "a film"} | {name: value}
    said = ask("masking", 400, **question)["error"]
    assert "xpected" in said and "Received: " in said and len(said) < 600
    assert f"`{name}`" in said or name == "unknown"


def test_a_number_that_is_too_large_for_a_float(app):
    body = '{"model": null, "text": "a", "mask_rate": 1e999}'
    response = Client(app).post("/api/masking", data=body, content_type="application/json")
    assert response.status_code == 400 and "`mask_rate`: expected a number from 0 to 1" in response.json["error"]


def test_a_rate_of_nothing_is_the_layers_own_error(ask):
    assert "`mask_rate` must be a number in (0, 1]" in ask("masking", 400, model=None, text="a", mask_rate=0)["error"]


# Sizes


VIEWS = {
    "masking": ("text", "fill_mask"),
    "input_representation": ("text", "encoder"),
    "attention": ("text", "encoder"),
    "fill_mask": ("text", "fill_mask"),
    "classification": ("text", "single"),
    "entities": ("text", "tagging"),
    "next_sentence": ("document", "fill_mask"),
    "question_answering": ("context", "span"),
}


@pytest.mark.parametrize("view", slow_but(("masking", "question_answering"), VIEWS))
def test_a_megabyte_of_text_gets_an_answer_or_a_sentence(app, view):
    name, model = VIEWS[view]
    question = {"model": model, name: "The film is good. A [MASK]! " * 37_500}
    if view == "question_answering":
        question["question"] = "what " * 1000
    if view == "next_sentence":
        question["other"] = "The film is bad."
    response = Client(app).post(f"/api/{view}", json=question)
    if view in ("entities", "question_answering"):
        assert response.status_code == 400
        assert (
            f"`{name}`: expected a text of at most 64 windows of 19 tokens. Received: a longer one"
            == response.json["error"]
        )
    else:
        assert response.status_code == 200, response.text


def test_more_than_four_megabytes_are_refused(app):
    client = Client(app)
    body = json.dumps({"model": None, "text": "a" * (4 * 2**20)})
    response = client.post("/api/masking", data=body, content_type="application/json")
    assert response.status_code == 413 and "Expected at most 4,194,304 bytes" in response.json["error"]


# What stays as it was typed


def test_markup_stays_text_in_json(ask, app):
    text = "</script><img src=x onerror=alert(1)>\u2028 the film"
    response = Client(app).post("/api/input_representation", json={"model": "encoder", "text": text})
    assert response.mimetype == "application/json" and response.headers["X-Content-Type-Options"] == "nosniff"
    assert "\u2028" not in response.text  # escaped: safe in a script as well
    said = ask("masking", 400, model="<b>nobody</b>", text="a")["error"]
    assert "<b>nobody</b>" in said  # the page puts it in as text


@pytest.mark.parametrize("words", [("film", "good"), pytest.param(("film", "good", "bad"), marks=pytest.mark.slow)])
def test_users_do_not_mix(app, words):
    """Each of many questions at once gets the answer that it gets alone."""
    questions = [
        ("masking", {"model": "fill_mask", "text": f"the {w} is very {w}", "seed": n}) for n, w in enumerate(words)
    ]
    questions += [("attention", {"model": "encoder", "text": f"{w} of {w}"}) for w in words]
    questions += [("entities", {"model": "tagging", "text": f"{w} of {w}"}) for w in words]
    alone = [asking(app)(view, **question) for view, question in questions]
    with concurrent.futures.ThreadPoolExecutor(3) as users:
        together = list(users.map(lambda asked: asking(app)(asked[0], **asked[1]), questions))
    assert together == alone


def test_a_failure_is_no_traceback(app, monkeypatch, caplog):
    def fail(*_):
        raise KeyError("a secret of somebody")

    monkeypatch.setattr(app.api, "ask", fail)
    response = Client(app).post("/api/masking", json={"text": "a"})
    assert response.status_code == 500 and "somebody" not in response.text and "KeyError" not in response.text
    assert "playground: POST /api/masking failed" in caplog.text


@pytest.mark.usefixtures("eagerly")
def test_damaged_weights_are_a_sentence(tmp_path):
    model = randomise(kbert.BertPretrainer(tiny_config(num_layers=1)))
    for weight in model.encoder.blocks[0].weights:
        weight.assign(np.full(weight.shape, 3e38))  # finite, but nothing that is computed with them
    settings = ModelSettings(task=model.task, sequence_length=19)
    path = tmp_path / "damaged"
    kbert.save_pretrained(model, path, tokenizer=tiny_tokenizer(), settings=settings)
    ask = asking(PlaygroundApp([path]))
    for view in ("masking", "attention", "fill_mask", "next_sentence"):
        texts = (
            {"document": "A film.", "other": "Paris."}
            if view == "next_sentence"
            else {"text": "the [MASK] film is good"}
        )
        assert "Expected finite numbers" in ask(view, 400, model="damaged", **texts)["error"]


def test_another_backend_is_a_sentence(home, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    assert "KERAS_BACKEND=tensorflow" in asking(PlaygroundApp())("masking", 400, text="a")["error"]


# On a port


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
