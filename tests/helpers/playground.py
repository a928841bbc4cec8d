"""Asks a playground without a network, or serves it on a free port of this machine."""

import contextlib
import threading

from werkzeug.test import Client

from kbert.inspection.playground import PlaygroundApp, PlaygroundServer


def asking(app):
    """A function that asks a view of an app: ``ask(view, status=200, **question)`` gives the JSON that was answered."""
    client = Client(app)

    def ask(view, status=200, **question):
        response = client.post(f"/api/{view}", json=question)
        assert response.status_code == status, response.text
        return response.json

    return ask


@contextlib.contextmanager
def serving(models):
    """The address, "http://127.0.0.1:port/", of a playground with these models."""
    app = PlaygroundApp(models)
    app.api  # noqa: B018  # imports TensorFlow, before a browser waits for its answer
    server = PlaygroundServer(app, port=0)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    yield server.address
    server.close()
    thread.join()
