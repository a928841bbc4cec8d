"""The projector's files, asked for as TensorBoard's page does."""

import json

import numpy as np
import pytest
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.plugins import base_plugin
from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin
from werkzeug.test import Client

from kbert.inspection.analysis.projector import Embeddings, write_projector

TOKENS = ["the", "tab\there", "new\nline\u2028", '"quoted" <b>', "", "中"]


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(0).normal(size=(6, 3)).astype("float32")


@pytest.fixture(scope="module")
def ask(tmp_path_factory, vectors):
    """Function of a route → the plugin's response."""
    path = tmp_path_factory.mktemp("logs")
    words = Embeddings('word "embeddings"', vectors, {"token": TOKENS, "count": range(6)})
    write_projector(path, [words, Embeddings("texts", vectors[:2], {"text": ["a", "b"], "label": ["x", "y"]})])
    multiplexer = plugin_event_multiplexer.EventMultiplexer()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(path))
    plugin = ProjectorPlugin(base_plugin.TBContext(logdir=str(path), data_provider=provider))
    clients = {route: Client(app) for route, app in plugin.get_plugin_apps().items()}

    def response(route, **query):
        found = clients[route].get("/", query_string=query)
        assert found.status_code == 200, found.get_data(as_text=True)
        return found.get_data()

    return response


def test_the_vectors_and_their_columns_arrive(ask, vectors):
    assert json.loads(ask("/runs")) == ["."]
    shown = json.loads(ask("/info", run="."))["embeddings"]
    assert [(one["tensorName"], one["tensorShape"]) for one in shown] == [
        ('word "embeddings"', [6, 3]),
        ("texts", [2, 3]),
    ]
    tensor = np.frombuffer(ask("/tensor", run=".", name='word "embeddings"'), "float32").reshape(6, 3)
    np.testing.assert_allclose(tensor, vectors, rtol=1e-5)
    rows = [row.split("\t") for row in ask("/metadata", run=".", name='word "embeddings"').decode().splitlines()]
    assert rows[0] == ["token", "count"] and len(rows) == 7
    assert [row[0] for row in rows[1:]] == ["the", "tab here", "new line", '"quoted" <b>', "(empty)", "中"]
