"""The client, against a server that speaks TensorFlow Serving's REST and gRPC with the official messages.

It is a stand-in, or a real server where one is given: helpers/real_server.py.
"""

import json
import re
import shlex
import urllib.request

import numpy as np
import pytest
from helpers.paths import ROOT
from helpers.run_python import assert_imports_none
from helpers.run_recipe import run_kbert
from helpers.served_models import ON_THE_PAGE, SIGNATURES

from kbert.serving.client import ServingClient, trim_answers
from kbert.serving.rest_transport import ServingError

PATIENT = 120.0  # seconds: the stand-in loads a model when it is first asked for it
TEXTS = ["The film is good.", "", "paris é 中 \U0001f600"]
PAIRS = ["Good?", "never never", "a"]
CHOICES = [["good", "bad film", "the"], ["a"], ["é", "中"]]
COLUMNS = {
    "fill_mask": {"text": ["a [MASK] film", "[MASK] [MASK]", "none"]},
    "tagging": {"text": ["the capital paris london", "", "film"]},
    "span": {"question": TEXTS, "context": ["in london .", "", "the film \U0001f600 london é"]},
    "multiple_choice": {"prompt": TEXTS, "choices": CHOICES},
    "regression": {"text": TEXTS, "text_pair": PAIRS},
    "single": {"text": np.array([*TEXTS[:2], b"invalid \xff utf-8"], object)},
    "encoder": {"text": TEXTS},
}


@pytest.fixture(params=["rest", "grpc"])
def url(request, server):
    return getattr(server, request.param)


def expected_of(served_models, kind):
    return served_models[kind].pipeline.predict(COLUMNS[kind], verbose=0)


def rows_of(columns):
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def assert_close(values, expected):
    np.testing.assert_allclose(values, expected, atol=1e-5, rtol=0)


def test_answers_equal_those_of_python(server, url, served_models):
    for kind, columns in COLUMNS.items():
        answers = ServingClient(url, kind, timeout=PATIENT).predict(columns)
        expected = expected_of(served_models, kind)
        assert answers.keys() == expected.keys()
        for name, value in trim_answers({name: value.tolist() for name, value in expected.items()}).items():
            if expected[name].dtype == object:
                assert answers[name] == value
            else:
                for row, expected_row in zip(answers[name], value, strict=True):
                    assert_close(row, expected_row)
        if server.requests is not None:
            assert server.requests[-1] == (kind, "serving_default")


def test_classify_and_regress(url, served_models):
    rows = ServingClient(url, "single", version=1, timeout=PATIENT).classify(rows_of(COLUMNS["single"]))
    assert [[label for label, _ in row] for row in rows] == [["bad", "good", "ß 中"]] * 3
    assert_close([[score for _, score in row] for row in rows], expected_of(served_models, "single")["probabilities"])
    scores = ServingClient(url, "regression", timeout=PATIENT).regress(rows_of(COLUMNS["regression"]))
    assert_close(scores, expected_of(served_models, "regression")["score"])


def test_what_fills_a_batch_up_is_cut_off(url):
    """[B, M, k] of fill-mask is as wide for every text; a text has as many masks as `count` says."""
    answers = ServingClient(url, "fill_mask", timeout=PATIENT).predict(COLUMNS["fill_mask"])
    assert answers["count"] == [1, 2, 0]
    assert [len(row) for row in answers["tokens"]] == [len(row) for row in answers["probabilities"]] == [1, 2, 0]
    assert all(token for row in answers["tokens"] for mask in row for token in mask)
    answers = ServingClient(url, "encoder", timeout=PATIENT).predict({"text": ["paris é"]}, "features")
    assert answers["count"] == [4] and len(answers["features"][0]) == len(answers["tokens"][0]) == 4
    answers = ServingClient(url, "span", timeout=PATIENT).predict({"question": ["good?"], "context": ["in london ."]})
    assert [len(answers[name][0]) for name in ("n_best_answers", "n_best_scores")] == answers["n_best_count"] * 2


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
        ServingError, match="127.0.0.1:9.* cannot be reached: .*[.] Is TensorFlow Serving run"
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
    with pytest.raises(ServingError, match="(400|INVALID_ARGUMENT): expected something else"):
        ServingClient(url, "single", timeout=PATIENT).predict({"text": ["a"]})
    stand_in.fault = None
    with pytest.raises(ServingError, match="(404|NOT_FOUND)"):
        ServingClient(url, "single", timeout=PATIENT).predict({"text": ["a"]}, "no_such_signature")


@pytest.mark.parametrize(
    ("url", "rest"),
    [
        ("grpc://host:9000", "http://host:8501"),
        ("grpcs://host:8500", "https://host:8501"),
        ("grpc://[::1]:8500", "http://[::1]:8501"),
        ("https://host:443/prefix", "https://host:443/prefix"),
    ],
)
def test_the_curl_line_is_for_rest(url, rest):
    line = ServingClient(url, "reviews").curl({"text": ["a"]})
    assert shlex.split(line)[-1] == f"{rest}/v1/models/reviews:predict"


def query(capsys, *arguments):
    """What ``kbert query`` prints: its answers, and the words of the last curl line as a shell hands them to curl."""
    run_kbert("query", "--timeout", PATIENT, *arguments)
    printed = capsys.readouterr()
    return [json.loads(line) for line in printed.out.splitlines()], shlex.split(printed.err.splitlines()[-1])


def test_the_command_asks_with_texts(server, served_models, capsys, tmp_path):
    """The curl line that it prints asks the same, whatever is in the text."""
    [answer], (curl, *_, body, address) = query(capsys, 'it\'s é "good"', "--url", server.rest, "--model", "single")
    with urllib.request.urlopen(address, body.encode()) as response:
        assert json.loads(response.read())["outputs"]["label"] == [answer["label"]] and curl == "curl"
    [pair], _ = query(capsys, "--pair", *("The film is good.", "Good?"), "--url", server.rest, "--model", "regression")
    assert_close(pair["score"], expected_of(served_models, "regression")["score"][0])
    (tmp_path / "context.txt").write_text("A film \U0001f600 of London.\n", encoding="utf-8")
    asked = ["--question", "the capital?", "--context-file", tmp_path / "context.txt"]
    [answer], _ = query(capsys, *asked, "--url", server.grpc, "--model", "span")
    assert (answer["answer"], answer["start"], answer["end"]) == ("London", 12, 18)
    asked = ["--prompt", "the film", "--choices", "good", ""]
    [answer], (*_, address) = query(capsys, *asked, "--url", server.grpc, "--model", "multiple_choice")
    assert answer["choice"] == 0 and answer["probabilities"] == pytest.approx([1, 0])
    assert address.startswith("http://") and address.endswith("/v1/models/multiple_choice:predict")


@pytest.mark.parametrize(
    "signature, kind, columns",
    [
        ("serving_default", "multiple_choice", COLUMNS["multiple_choice"]),
        ("classify", "single", {"text": TEXTS}),
        ("regress", "regression", COLUMNS["regression"]),
    ],
)
def test_the_command_asks_with_the_rows_of_a_file(server, served_models, capsys, tmp_path, signature, kind, columns):
    """classify and regress take tf.Examples; asked with :predict they are an error, and so is the curl line of it."""
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows_of(columns))))
    common = ["--input", tmp_path / "rows.jsonl", "--signature", signature, "--model", kind]
    answers, (*_, body, address) = query(capsys, *common, "--url", server.rest)
    expected = served_models[kind].pipeline.predict(columns, verbose=0)
    if signature == "classify":
        assert [list(answer["probabilities"]) for answer in answers] == [["bad", "good", "ß 中"]] * 3
        assert_close([list(answer["probabilities"].values()) for answer in answers], expected["probabilities"])
    else:
        output = "score" if signature == "regress" else "probabilities"
        for answer, row in zip(answers, expected[output], strict=True):
            assert_close(answer[output], row)
    with urllib.request.urlopen(address, body.encode()) as response:
        assert len(response.read()) > 20
    again, _ = query(capsys, *common, "--url", server.grpc, "--batch-size", 1)
    assert len(again) == 3


def test_what_the_command_does_not_ask(server, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n{"words": "b"}\n')
    common = ["--timeout", PATIENT, "--url", server.rest, "--model", "single"]
    with pytest.raises(SystemExit, match="line 2: expected an object with"):
        run_kbert("query", "--input", tmp_path / "rows.jsonl", *common)
    for arguments in (["--question", "Who?"], ["--prompt", "x"], ["a", "--pair", "b", "c"], []):
        with pytest.raises(SystemExit):
            run_kbert("query", *arguments, *common)


def test_the_requests_of_the_page(server):
    """docs/serving.md: every curl line, and every block of Python, which calls every signature of every model."""
    page = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
    _forget_requests(server)
    for line in re.findall(r"^    (curl -d .*)$", page, flags=re.MULTILINE):
        _, _, body, address = shlex.split(line)
        request = urllib.request.Request(address.replace("http://localhost:8501", server.rest), body.encode())
        with urllib.request.urlopen(request, timeout=PATIENT) as response:
            answer = json.loads(response.read())
        assert set(answer) <= {"outputs", "predictions", "results"} and all(answer.values()), line
    assert server.requests is None or len(server.requests) == 7
    _forget_requests(server)
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        code = block.replace('"saved_models/', f'"{ROOT}/saved_models/')
        code = code.replace("grpc://localhost:8500", server.grpc).replace("localhost:8500", server.grpc[7:])
        names = {}
        exec(compile(code.replace("timeout=2.0", f"timeout={PATIENT}"), "docs/serving.md", "exec"), names)
        assert "request" not in names or names["tf"].make_ndarray(names["response"].outputs["label"]).shape == (1,)
    if server.requests is not None:
        asked = {kind: set() for kind in ON_THE_PAGE.values()}
        for kind, signature in server.requests:
            asked[kind] |= {signature} - {"serving_default", "", None}
        assert asked == {kind: SIGNATURES[kind] for kind in asked}


def _forget_requests(server):
    if server.requests is not None:
        server.requests.clear()


def test_the_client_needs_no_tensorflow():
    statements = "from kbert.serving.client import ServingClient; ServingClient('grpc://localhost:1', 'x')"
    assert_imports_none(statements, "tensorflow", "keras", "tensorflow_serving")
