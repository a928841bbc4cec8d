"""The client, against a server that speaks TensorFlow Serving's REST.

It is a stand-in, or a real server where one is given: helpers/real_server.py.
"""

import functools
import json
import re
import shlex
import types
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
from helpers.paths import ROOT
from helpers.run_python import assert_imports_none
from helpers.run_recipe import run_kbert
from helpers.served_models import KINDS, ON_THE_PAGE, SIGNATURES
from helpers.slow_but import slow_but
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from kbert.serving.client import ServingClient, trim_answers
from kbert.serving.rest_transport import ServingError

PATIENT = 120.0  # seconds: the stand-in loads a model when it is first asked for it
TEXTS = ["The film is good.", "", "paris é 中 \U0001f600"]
PAIRS = ["Good?", "never never", "a"]
CHOICES = [["good", "bad film", "the"], ["a"], ["é", "中"]]


@pytest.fixture
def url(server):
    return server.rest


# Answers of every sort; the other kinds are asked below.
@pytest.mark.parametrize("kind", slow_but(("single", "fill_mask", "span"), KINDS))
def test_answers_equal_those_of_python(server, url, served_models, kind):
    texts = {
        "fill_mask": ["a [MASK] film", "[MASK] [MASK]", "none"],
        "tagging": ["the capital paris london", "", "film"],
    }
    second = {"multiple_choice": CHOICES, "span": ["in london .", "", "the film \U0001f600 london é"]}
    pipeline = served_models[kind].pipeline
    given = (texts.get(kind, TEXTS), second.get(kind, PAIRS))
    columns = dict(zip(pipeline.preprocessor.input_names, given, strict=False))
    answers = ServingClient(url, kind, timeout=PATIENT).predict(columns)
    expected = pipeline.predict(columns, verbose=0)
    assert answers.keys() == expected.keys()
    for name, value in trim_answers({name: value.tolist() for name, value in expected.items()}).items():
        if expected[name].dtype == object:
            assert answers[name] == value
        else:
            for row, expected_row in zip(answers[name], value, strict=True):
                np.testing.assert_allclose(row, expected_row, atol=1e-5, rtol=0)
    if server.requests is not None:
        assert server.requests[-1] == (kind, "serving_default")


def test_arrays_and_bytes(url, served_models):
    columns = {"text": np.array([b"The film is good.", b"invalid \xff utf-8"], object)}
    answers = ServingClient(url, "single", timeout=PATIENT).predict(columns)
    expected = served_models["single"].pipeline.predict(columns, verbose=0)
    np.testing.assert_allclose(answers["probabilities"], expected["probabilities"], atol=1e-5, rtol=0)
    rows = ServingClient(url, "single", timeout=PATIENT).classify([{"text": text} for text in columns["text"]])
    np.testing.assert_allclose([[score for _, score in row] for row in rows], expected["probabilities"], atol=1e-5)


def test_classify_and_regress(url, served_models):
    expected = served_models["single"].pipeline.predict({"text": TEXTS}, verbose=0)["probabilities"]
    rows = ServingClient(url, "single", version=1, timeout=PATIENT).classify([{"text": text} for text in TEXTS])
    assert [[label for label, _ in row] for row in rows] == [["bad", "good", "ß 中"]] * 3
    np.testing.assert_allclose([[score for _, score in row] for row in rows], expected, atol=1e-5, rtol=0)
    examples = [{"text": a, "text_pair": b} for a, b in zip(TEXTS, PAIRS, strict=True)]
    expected = served_models["regression"].pipeline.predict({"text": TEXTS, "text_pair": PAIRS}, verbose=0)["score"]
    np.testing.assert_allclose(
        ServingClient(url, "regression", timeout=PATIENT).regress(examples), expected, atol=1e-5, rtol=0
    )


def test_a_slow_server(stand_in, url):
    stand_in.fault = "slow"
    stand_in.waiting = 0
    stand_in.answer.clear()
    with pytest.raises(ServingError, match=r"did not answer within 0\.2 s"):
        ServingClient(url, "single", timeout=0.2).predict({"text": ["a"]})
    stand_in.answer.set()
    assert stand_in.waiting <= 1, "it must not ask a slow server again"


def test_no_server(url):
    address = url.split("//")[0] + "//127.0.0.1:9"
    with pytest.raises(
        ServingError, match="127.0.0.1:9.* cannot be reached: .*[.] Is TensorFlow Serving running"
    ) as raised:
        ServingClient(address, "single", timeout=5, tries=2).predict({"text": ["a"]})
    assert raised.value.may_retry


def test_a_busy_server_is_asked_again(stand_in, url):
    stand_in.fault, stand_in._busy = "busy", 2
    assert len(ServingClient(url, "single", timeout=PATIENT).predict({"text": ["a"]})["label"]) == 1
    stand_in._busy = 2
    with pytest.raises(ServingError, match="loading"):
        ServingClient(url, "single", tries=1).predict({"text": ["a"]})


def test_an_error_is_told_in_the_servers_words(stand_in, url):
    stand_in.fault = "error"
    with pytest.raises(ServingError, match="400: expected something else"):
        ServingClient(url, "single", timeout=PATIENT).predict({"text": ["a"]})
    stand_in.fault = None
    with pytest.raises(ServingError, match="404"):
        ServingClient(url, "single", timeout=PATIENT).predict({"text": ["a"]}, "no_such_signature")


def test_malformed_answers(stand_in):
    client = ServingClient(stand_in.rest, "single")
    stand_in.fault = "malformed"
    with pytest.raises(ServingError, match="expected JSON"):
        client.predict({"text": ["a"]})
    stand_in.fault = "cut off"
    with pytest.raises(ServingError, match="expected an answer with 'outputs'"):
        client.predict({"text": ["a"]})


@pytest.mark.parametrize(
    ("url", "rest"),
    [
        ("http://[::1]:8501/", "http://[::1]:8501"),
        ("https://host:443/prefix", "https://host:443/prefix"),
    ],
)
def test_the_address_of_the_curl_line(url, rest):
    line = ServingClient(url, "reviews").curl({"text": ["a"]})
    assert shlex.split(line)[-1] == f"{rest}/v1/models/reviews:predict"


def test_the_curl_line_asks_the_same(server, served_models):
    client = ServingClient(server.rest, "single")
    line = client.curl({"text": ['it\'s é "good"']})
    command, *_, body, address = shlex.split(line)  # what a shell would hand to curl
    assert command == "curl"
    with urllib.request.urlopen(address, body.encode()) as response:
        answer = json.loads(response.read())["outputs"]
    assert answer["label"] == client.predict({"text": ['it\'s é "good"']})["label"]


@pytest.mark.parametrize("verb, kind", [("classify", "single"), ("regress", "regression")])
def test_the_recipe_classifies_and_regresses(server, url, served_models, capsys, tmp_path, verb, kind):
    """These signatures take tf.Examples; asked with :predict they are an error, and so is the curl line of it."""
    names = served_models[kind].pipeline.preprocessor.input_names
    rows = [dict(zip(names, texts, strict=False)) for texts in zip(TEXTS, PAIRS, strict=True)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = ["--input", tmp_path / "rows.jsonl", "--signature", verb, "--timeout", PATIENT, "--url", url]
    run_kbert("query", *asked, "--model", kind)
    printed = capsys.readouterr()
    columns = {name: [row[name] for row in rows] for name in names}
    expected = served_models[kind].pipeline.predict(columns, verbose=0)
    answers = [json.loads(line) for line in printed.out.splitlines()]
    if verb == "regress":
        np.testing.assert_allclose([answer["score"] for answer in answers], expected["score"], atol=1e-5, rtol=0)
    else:
        assert [list(answer["probabilities"]) for answer in answers] == [["bad", "good", "ß 中"]] * 3
        found = [list(answer["probabilities"].values()) for answer in answers]
        np.testing.assert_allclose(found, expected["probabilities"], atol=1e-5, rtol=0)
    *_, body, address = shlex.split(printed.err)
    assert address.endswith(f"/v1/models/{kind}:{verb}")
    with urllib.request.urlopen(address, body.encode()) as response:
        assert len(json.loads(response.read())["results"]) == 3


def test_the_recipe(server, served_models, capsys, tmp_path):
    common = ["--timeout", PATIENT, "--url", server.rest, "--model"]
    run_kbert("query", "good", "bad film", *common, "single")
    printed = capsys.readouterr()
    answers = [json.loads(line) for line in printed.out.splitlines()]
    expected = served_models["single"].pipeline.predict(["good", "bad film"], verbose=0)
    assert [answer["label"] for answer in answers] == expected["label"].tolist()
    assert printed.err.startswith("curl ") and "/v1/models/single:predict" in printed.err
    (tmp_path / "rows.jsonl").write_text('{"text": "a", "text_pair": "b"}\n\n{"text": "c", "text_pair": ""}\n')
    run_kbert("query", "--input", tmp_path / "rows.jsonl", "--batch-size", 1, *common, "regression")
    rows = [json.loads(line)["score"] for line in capsys.readouterr().out.splitlines()]
    expected = served_models["regression"].pipeline.predict({"text": ["a", "c"], "text_pair": ["b", ""]}, verbose=0)
    np.testing.assert_allclose(rows, expected["score"], atol=1e-5, rtol=0)
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n{"words": "b"}\n')
    with pytest.raises(SystemExit, match="line 2: expected an object with"):
        run_kbert("query", "--input", tmp_path / "rows.jsonl", *common, "single")
    for arguments in (["a", "--input", tmp_path / "rows.jsonl"], []):
        with pytest.raises(SystemExit, match="expected either texts or `input`"):
            run_kbert("query", *arguments, *common, "single")


@pytest.mark.slow  # test_the_recipe
def test_questions_and_choices_of_the_recipe(url, served_models, capsys, tmp_path):
    common = ["--input", tmp_path / "rows.jsonl", "--timeout", PATIENT, "--url", url, "--model"]
    question = {"question": "the capital?", "context": "A film \U0001f600 of London.\n"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(question, ensure_ascii=False), encoding="utf-8")
    run_kbert("query", *common, "span")
    answer = json.loads(capsys.readouterr().out)
    assert (answer["answer"], answer["start"], answer["end"]) == ("London", 12, 18)
    rows = [{"prompt": text, "choices": choices} for text, choices in zip(TEXTS, CHOICES, strict=True)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run_kbert("query", *common, "multiple_choice")
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    expected = served_models["multiple_choice"].pipeline.predict({"prompt": TEXTS, "choices": CHOICES}, verbose=0)
    np.testing.assert_allclose([row["probabilities"] for row in answers], expected["probabilities"], atol=1e-5, rtol=0)


PAGE = ROOT / "docs/serving.md"


@pytest.mark.slow  # test_answers_equal_those_of_python
def test_the_curl_lines_of_the_page(server):
    page = PAGE.read_text(encoding="utf-8")
    _forget_requests(server)
    for line in re.findall(r"^    (curl -d .*)$", page, flags=re.MULTILINE):
        _, _, body, address = shlex.split(line)
        request = urllib.request.Request(address.replace("http://localhost:8501", server.rest), body.encode())
        with urllib.request.urlopen(request, timeout=PATIENT) as response:
            answer = json.loads(response.read())
        assert set(answer) <= {"outputs", "predictions", "results"} and all(answer.values()), line
    assert server.requests is None or len(server.requests) == 7


@pytest.mark.slow  # the curl lines ask each model, above; every signature in its SavedModel: test_export.py
def test_the_python_of_the_page(server, served_models, monkeypatch):
    """Every block, which together call every signature of every model; no server answers the request over gRPC."""
    answer = functools.partial(_answer_over_grpc, served_models["single"])
    stub = types.SimpleNamespace(Predict=answer)
    monkeypatch.setattr(prediction_service_pb2_grpc, "PredictionServiceStub", lambda channel: stub)
    page = PAGE.read_text(encoding="utf-8")
    _forget_requests(server)
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        code = block.replace('"saved_models/', f'"{ROOT}/saved_models/')
        code = code.replace("http://localhost:8501", server.rest)
        names = {}
        exec(compile(code.replace("timeout=2.0", f"timeout={PATIENT}"), "docs/serving.md", "exec"), names)
        assert "request" not in names or names["tf"].make_ndarray(names["response"].outputs["label"]).shape == (1,)
    assert _signatures_asked(server) == _EVERY_SIGNATURE


def _answer_over_grpc(served, request, timeout):
    inputs = {name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()}
    response = predict_pb2.PredictResponse()
    for name, value in served.loaded[request.model_spec.signature_name](**inputs).items():
        response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
    return response


_EVERY_SIGNATURE = {kind: SIGNATURES[kind] for kind in ON_THE_PAGE.values()}


def _forget_requests(server):
    if server.requests is not None:
        server.requests.clear()


def _signatures_asked(server):
    """kind → the signatures that were asked for, serving_default left out; of a real server all."""
    asked = {}
    if server.requests is None:
        return _EVERY_SIGNATURE
    for kind, signature in server.requests:
        asked.setdefault(kind, set()).add(signature)
    return {kind: names - {"serving_default", "", None} for kind, names in asked.items()}


def test_the_client_needs_no_tensorflow():
    statements = "from kbert.serving.client import ServingClient; ServingClient('http://localhost:1', 'x')"
    assert_imports_none(statements, "tensorflow", "keras", "tensorflow_serving")
