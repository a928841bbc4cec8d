"""TensorBoard in this process over a directory, asked over HTTP."""

import contextlib
import json
import threading
import urllib.parse
import urllib.request

from tensorboard import default, program


class LiveTensorBoard:
    """Answers of a running TensorBoard."""

    def __init__(self, url):
        self.url = url.rstrip("/")

    def get(self, path, **query):
        """The body of an answer of status 200, as bytes."""
        address = f"{self.url}/{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.read()

    def json(self, path, **query):
        return json.loads(self.get(path, **query))

    def post(self, path, content):
        """The JSON of the answer to a JSON object."""
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/{path}", json.dumps(content).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def plugins(self):
        """Names of the plugins that have something to show."""
        return {name for name, about in self.json("data/plugins_listing").items() if about["enabled"]}


@contextlib.contextmanager
def live_tensorboard(log_dir):
    """A TensorBoard that has read all of `log_dir`, once; what is written later it does not see."""
    board = program.TensorBoard(plugins=default.get_plugins())
    once = {"load_fast": "false", "reload_interval": 0, "reload_task": "blocking"}
    board.configure(logdir=str(log_dir), port=0, host="127.0.0.1", **once)
    server = board._make_server()  # `launch` gives the address alone, and the server would run for ever
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield LiveTensorBoard(server.get_url())
    finally:
        server.shutdown()
        server.server_close()
