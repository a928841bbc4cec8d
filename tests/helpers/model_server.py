"""A stand-in for tensorflow_model_server: REST on loopback, around SavedModels.

It does what TensorFlow Serving documents, as far as kbert's client asks for it, and misbehaves on request.
"""

import base64
import contextlib
import http.server
import json
import re
import threading

import numpy as np
import tensorflow as tf

from kbert.serving.saved_model_file import SavedModelFile


class ModelServer:
    """Serves version 1 of some models for the time of a ``with`` block.

    Args:
        models: dict of name → model, which has ``path``, of version 1, and ``loaded``, its signatures.
        aliases: dict of other names that models may be asked by.

    Attributes:
        rest: the URL for a client.
        fault: None, or how to misbehave: "slow", "error", "busy" (the next two requests only), "malformed", "cut off".
        requests: what was asked, a list of (model, signature).
        waiting: how many requests the fault "slow" has kept waiting; it answers when `answer` is set.
    """

    def __init__(self, models, aliases=None):
        self.models, self.aliases = models, aliases or {}
        self.fault, self.requests, self._busy = None, [], 2
        self.waiting, self.answer = 0, threading.Event()
        self._lock = threading.Lock()  # a model is loaded when it is first asked for

    def run(self, model, version, signature, inputs):
        """Outputs as arrays; KeyError for what is not there."""
        with self._lock:
            served = self.find(model, version)
            signatures = served.loaded
        self.requests.append((served.kind, signature))
        function = signatures[signature or "serving_default"]
        return {name: value.numpy() for name, value in function(**inputs).items()}

    def find(self, model, version):
        """The model of a name; KeyError if there is none, or not in this version."""
        if version not in (None, 1, "1"):
            raise KeyError(version)
        return self.models[self.aliases.get(model, model)]

    def be_slow(self):
        """Waits where that is the fault."""
        if self.fault == "slow":
            self.waiting += 1
            self.answer.wait(60)

    def is_busy(self):
        """Whether this request is one of the two that find the server busy."""
        if self.fault == "busy" and self._busy:
            self._busy -= 1
            return True
        return False

    def __enter__(self):
        self._stack = contextlib.ExitStack()
        self.rest = self._start_rest()
        return self

    def __exit__(self, *error):
        self._stack.close()

    def _start_rest(self):
        handler = type("Handler", (_RestHandler,), {"models": self})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        self._stack.callback(server.server_close)
        self._stack.callback(server.shutdown)
        return f"http://127.0.0.1:{server.server_address[1]}"


class _RestHandler(http.server.BaseHTTPRequestHandler):
    models: ModelServer
    _PATH = re.compile(r"/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/\w+)?(?::(\w+)|(/metadata))?")

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        match = self._PATH.fullmatch(self.path)
        model, version, _, metadata = match.groups() if match else (None,) * 4
        try:
            served = self.models.find(model, version)
        except KeyError as error:
            return self._answer(404, {"error": f"Not found: {error}"})
        if not metadata:
            return self._answer(200, {"model_version_status": [{"version": "1", "state": "AVAILABLE"}]})
        signatures = {
            name: {"inputs": dict.fromkeys(s.inputs, {}), "outputs": dict.fromkeys(s.outputs, {})}
            for name, s in SavedModelFile(served.path).signatures.items()
        }
        self._answer(200, {"metadata": {"signature_def": {"signature_def": signatures}}})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])), object_hook=_bytes_of)
        match = self._PATH.fullmatch(self.path)
        if fault := self._fault():
            return self._answer(*fault)
        if not match:
            return self._answer(400, {"error": "Malformed request: " + self.path})
        model, version, verb, _ = match.groups()
        try:
            self._answer(200, getattr(self, f"_{verb}")(model, version, body))
        except (KeyError, FileNotFoundError) as error:
            self._answer(404, {"error": f"Servable not found for request: {error}"})
        except tf.errors.InvalidArgumentError as error:
            self._answer(400, {"error": _words(error)})
        except (TypeError, ValueError) as error:
            self._answer(400, {"error": str(error)[:300]})

    def _fault(self):
        self.models.be_slow()
        if self.models.fault == "malformed":
            return 200, b"\xff<html>not JSON"
        if self.models.fault == "cut off":
            return 200, {"predictions": []}
        if self.models.is_busy():
            return 503, {"error": "loading"}
        return (400, {"error": "expected something else"}) if self.models.fault == "error" else None

    def _predict(self, model, version, body):
        columns = body["inputs"] if "inputs" in body else _columns(body["instances"])
        inputs = {name: tf.constant(value, tf.string) for name, value in columns.items()}
        answers = self.models.run(model, version, body.get("signature_name"), inputs)
        outputs = {name: _json_values(name, value) for name, value in answers.items()}
        if "instances" in body:
            rows = [dict(zip(outputs, row, strict=True)) for row in zip(*outputs.values(), strict=True)]
            return {"predictions": rows if len(outputs) > 1 else next(iter(outputs.values()))}
        return {"outputs": next(iter(outputs.values())) if len(outputs) == 1 else outputs}

    def _classify(self, model, version, body):
        answers = self._on_examples(model, version, body)
        rows = zip(answers["classes"].tolist(), answers["scores"].tolist(), strict=True)
        return {"results": [[[label.decode(), x] for label, x in zip(*row, strict=True)] for row in rows]}

    def _regress(self, model, version, body):
        return {"results": self._on_examples(model, version, body)["outputs"].tolist()}

    def _on_examples(self, model, version, body):
        def feature(value):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[tf.compat.as_bytes(value)]))

        examples = [
            tf.train.Example(features=tf.train.Features(feature={k: feature(v) for k, v in row.items()}))
            for row in body["examples"]
        ]
        serialised = tf.constant([example.SerializeToString() for example in examples])
        return self.models.run(model, version, body.get("signature_name"), {"inputs": serialised})

    def _answer(self, code, content):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client may have given up
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)


def _words(error):
    """What a server says of an error in a graph: the op's own words, without Python's account of its place."""
    return error.message.partition("<stack traces unavailable>")[2].strip()[:400] or error.message[:400]


def _bytes_of(value):
    """The bytes that a JSON object of TensorFlow Serving stands for; another object as it is."""
    return base64.b64decode(value["b64"]) if set(value) == {"b64"} else value


def _columns(instances):
    """The row form of a request as columns."""
    return {name: [row[name] for row in instances] for name in instances[0]}


def _json_values(name, array):
    if array.dtype != object:
        return array.tolist()
    if name.endswith("_bytes"):
        return np.vectorize(lambda value: {"b64": base64.b64encode(value).decode()}, otypes=[object])(array).tolist()
    return np.vectorize(lambda value: value.decode("utf-8"), otypes=[object])(array).tolist()
