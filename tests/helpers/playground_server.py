"""The playground on a free port of this machine, in a thread."""

import contextlib
import threading

from kbert.inspection.playground import PlaygroundApp, PlaygroundServer


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
