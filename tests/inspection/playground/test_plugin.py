"""TensorBoard finds the tab by its entry point, lists it, and serves its page and answers."""

import json
import logging
import sys
import tomllib

import pytest
from helpers.paths import ROOT
from helpers.run_python import assert_imports_none
from tensorboard import default, program
from tensorboard.backend import application
from tensorboard.backend.event_processing import data_ingester
from werkzeug.test import Client

from kbert.inspection.playground import app as module
from kbert.inspection.playground.plugin import PlaygroundLoader


@pytest.fixture
def entry_point(tmp_path, monkeypatch):
    """The entry points of pyproject.toml, as an installed distribution has them."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    metadata = tmp_path / "site" / "kbert_under_test-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: kbert-under-test\nVersion: 1\n")
    lines = [line for group, of in declared.items() for line in (f"[{group}]", *(f"{k} = {v}" for k, v in of.items()))]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "site")])


def tensorboard(logdir, *arguments):
    """TensorBoard's own application over a log directory, with its tabs and ours."""
    server = program.TensorBoard(plugins=[*default.get_static_plugins(), PlaygroundLoader])
    server.configure(argv=["tensorboard", "--logdir", str(logdir), *map(str, arguments)])
    ingester = data_ingester.LocalDataIngester(server.flags)
    return application.TensorBoardWSGIApp(
        server.flags,
        server.plugin_loaders,
        ingester.data_provider,
        deprecated_multiplexer=ingester.deprecated_multiplexer,
    )


def test_the_entry_point_is_the_loader(entry_point):
    assert PlaygroundLoader in default.get_dynamic_plugins()


def test_starting_tensorboard_imports_nothing_heavy():
    statement = "from kbert.inspection.playground.plugin import PlaygroundLoader"
    assert_imports_none(statement, "tensorflow", "tensorflow_text", "keras")


def test_the_tab_and_its_answers(home, tmp_path, monkeypatch, caplog):
    page = tmp_path / "static"
    page.mkdir()
    (page / "index.js").write_text("export function render() {}")
    (page / "index.html").write_text("<!DOCTYPE html>")
    (tmp_path / "secret.js").write_text("secret")
    monkeypatch.setattr(module, "STATIC", page)
    caplog.set_level(logging.WARNING, logger="tensorboard")
    monkeypatch.setattr(logging.getLogger("tensorboard"), "propagate", True)
    client = Client(tensorboard(home / "models", "--kbert_vocab", home / "vocab.txt"))
    tab = client.get("/data/plugins_listing").json["kbert"]
    assert tab["enabled"] is True and tab["tab_name"] == "kbert"
    assert tab["loading_mechanism"] == {"type": "IFRAME", "module_path": "/data/plugin/kbert/index.js"}
    frame = client.get("/data/plugin_entry.html?name=kbert")
    assert '<base href="plugin/kbert/" />' in frame.text and 'import("./index.js")' in frame.text
    for path, kind in (("index.js", "text/javascript"), ("index.html", "text/html")):
        response = client.get(f"/data/plugin/kbert/{path}")
        assert response.status_code == 200 and response.mimetype == kind
    for path in ("../secret.js", "%2e%2e/secret.js", "app.py"):
        assert client.get(f"/data/plugin/kbert/{path}").status_code == 404
    names = [model["name"] for model in client.get("/data/plugin/kbert/api/models").json["models"]]
    assert names == ["encoder", "fill_mask", "left_to_right", "pair", "regression", "single", "span", "tagging"]
    asked = {"model": "fill_mask", "text": "a [MASK]"}
    assert client.post("/data/plugin/kbert/api/fill_mask", json=asked).json["fills"]
    assert client.post("/data/plugin/kbert/api/masking", json={"text": "a film"}).json["counts"]["chosen"] == 1
    foreign = {"Origin": "http://evil.example"}
    assert client.post("/data/plugin/kbert/api/fill_mask", json=asked, headers=foreign).status_code == 403
    assert client.get("/data/plugin/kbert/api/models", headers={"Host": "evil.example"}).status_code == 403
    assert "Content-Security-Policy" not in caplog.text and "nosniff" not in caplog.text


def test_flags(home, tmp_path):
    models = home / "models"
    both = f"{models / 'span'},{models / 'pair'}"
    app = tensorboard(tmp_path, "--kbert_models", both, "--path_prefix", "/tb", "--kbert_hosts", "proxy.example")
    client = Client(app)
    response = client.get("/tb/data/plugin/kbert/api/models", headers={"Host": "proxy.example"})
    assert [model["name"] for model in response.json["models"]] == ["span", "pair"]
    wide = Client(tensorboard(tmp_path, "--bind_all"))
    assert wide.get("/data/plugin/kbert/api/models", headers={"Host": "10.1.2.3:6006"}).status_code == 200
    assert wide.get("/data/plugin/kbert/api/models", headers={"Host": "evil.example"}).status_code == 403


def test_the_tab_of_several_log_directories(home):
    spec = f"one:{home / 'models' / 'span'},{home / 'models' / 'pair'}"
    server = program.TensorBoard(plugins=[*default.get_static_plugins(), PlaygroundLoader])
    server.configure(argv=["tensorboard", "--logdir_spec", spec])
    app = application.TensorBoardWSGIApp(server.flags, [PlaygroundLoader], None)
    models = json.loads(Client(app).get("/data/plugin/kbert/api/models").data)["models"]
    assert [model["name"] for model in models] == ["span", "pair"]
