"""A client of TensorFlow Serving: REST with nothing but Python, gRPC with grpcio. It imports no TensorFlow."""

import http.client
import json
import shlex
import time
import urllib.error
import urllib.parse
import urllib.request

from kbert.files import parse_json
from kbert.serving.serving_error import ServingError
from kbert.serving.trim import trim_answers
from kbert.serving.wire import MAX_MESSAGE

_WAIT = 0.2  # seconds before the second try, doubled each time
_PART = 2**16  # bytes of an answer that are read at once


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None  # the answer stays what it is: an error of 3xx


_OPENER = urllib.request.build_opener(_NoRedirects)


class ServingClient:
    """Asks a model on a TensorFlow Serving.

    Args:
        url: ``http://host:8501`` or https (REST), or ``grpc://host:8500``.
        model: the model's name on the server.
        version: its version; None: the one the server takes.
        label: a version label, such as "stable", in place of a version.
        timeout: seconds that one try waits for an answer; over REST it may take twice as long where the server sends
            its headers bit by bit.
        tries: how often to try where the server is not there, or says that it is overloaded (REST 429, 502, 503, 504;
            gRPC UNAVAILABLE, RESOURCE_EXHAUSTED). A slow answer is not asked for again: that would make it slower.

    Raises:
        ValueError: a URL of another kind, both a version and a label.

    Every call raises `ServingError` where there is no answer, and says why. Answers of more than 256 MB are not read,
    and redirects are not followed: texts go to the server that was named, or nowhere.

    Source: tensorflow.org/tfx/serving/api_rest; tensorflow_serving/apis/prediction_service.proto.

    Example::

        client = ServingClient("http://localhost:8501", "reviews")
        client.predict({"text": ["A charming journey."]})["label"]  # ["positive"]
    """

    def __init__(self, url, model, version=None, label=None, timeout=10.0, tries=3):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https", "grpc") or not parts.netloc:
            raise ValueError(f"ServingClient: expected http://host:8501 or grpc://host:8500. Received: {url!r}")
        if version is not None and label is not None:
            raise ValueError(f"ServingClient: give a version or a label. Received: {version!r} and {label!r}")
        self.url, self.model = url.rstrip("/"), model
        self.version, self.label = version, label
        self.timeout, self.tries = timeout, tries
        self._only_outputs = {}  # signature → the name of its output, where it has only one
        self._grpc = None
        if parts.scheme == "grpc":
            from kbert.serving.grpc_transport import GrpcTransport

            self._grpc = GrpcTransport(parts.netloc)

    def predict(self, inputs, signature="serving_default"):
        """Answers: dict of output → list, one entry a row.

        Entries that are lists hold what the row really has: what the server filled them up with is cut off, as the
        output ``count`` (of an n-best list ``n_best_count``) says.

        Args:
            inputs: dict of column → list of strings (for choices: of lists of strings, which may differ in length).
            signature: name of the signature.
        """
        inputs = _filled(inputs)
        if self._grpc:
            ask = self._grpc.predict
            found = self._patiently(lambda: ask(self._model_spec(signature), inputs, self.timeout))
        else:
            found = self._post("predict", {"signature_name": signature, "inputs": inputs}, "outputs")
        if not isinstance(found, dict):
            found = {self._only_output(signature): found}  # a single output comes without its name
        rows = len(next(iter(inputs.values()), ()))
        return trim_answers({name: self._rows(values, rows) for name, values in found.items()}, self.url)

    def classify(self, examples, signature="classify"):
        """(label, score) of all classes for each example; `examples`: list of dicts of column → string."""
        if self._grpc:
            rows = self._patiently(lambda: self._grpc.classify(self._model_spec(signature), examples, self.timeout))
        else:
            rows = self._post("classify", {"signature_name": signature, "examples": examples}, "results")
        try:
            return [[(label, score) for label, score in row] for row in self._rows(rows, len(examples))]
        except (TypeError, ValueError):
            raise ServingError(f"{self.url}: expected labels and scores. Received: {rows!r:.200}") from None

    def regress(self, examples, signature="regress"):
        """A number for each example; `examples`: list of dicts of column → string."""
        if self._grpc:
            rows = self._patiently(lambda: self._grpc.regress(self._model_spec(signature), examples, self.timeout))
        else:
            rows = self._post("regress", {"signature_name": signature, "examples": examples}, "results")
        return self._rows(rows, len(examples))

    def metadata(self):
        """What the server says about the model's signatures: dict of signature → {"inputs": …, "outputs": …}. REST."""
        content = self._json(self._patiently(lambda: self._open(f"{self._address()}/metadata")))
        try:
            return content["metadata"]["signature_def"]["signature_def"]
        except (KeyError, TypeError):
            raise ServingError(f"{self.url}: expected the metadata of a model. Received: {content!r:.200}") from None

    def curl(self, inputs, signature="serving_default", verb="predict"):
        """The command line that asks the same over REST.

        Args:
            inputs: as for `predict`; for the verbs classify and regress the examples.
            signature: name of the signature.
            verb: predict, classify or regress.
        """
        asked = {"inputs": _filled(inputs)} if verb == "predict" else {"examples": inputs}
        body = json.dumps({"signature_name": signature, **asked}, ensure_ascii=False)
        address = self._address().replace("grpc://", "http://").replace(":8500", ":8501")
        return f"curl --max-time {self.timeout:g} -d {shlex.quote(body)} {shlex.quote(f'{address}:{verb}')}"

    def _address(self):
        which = f"/versions/{self.version}" if self.version is not None else ""
        which = f"/labels/{urllib.parse.quote(self.label, safe='')}" if self.label is not None else which
        return f"{self.url}/v1/models/{urllib.parse.quote(self.model, safe='')}{which}"

    def _model_spec(self, signature):
        return {"signature": signature, "model": self.model, "version": self.version, "label": self.label}

    def _only_output(self, signature):
        if signature not in self._only_outputs:
            try:
                names = list(self.metadata()[signature]["outputs"])
            except (KeyError, TypeError):
                names = []
            self._only_outputs[signature] = names[0] if len(names) == 1 else "output"
        return self._only_outputs[signature]

    def _rows(self, values, rows):
        """An output's values, if there is one for each row that was sent."""
        if not isinstance(values, list) or len(values) != rows:
            raise ServingError(f"{self.url}: expected a list of {rows} answers. Received: {values!r:.200}")
        return values

    def _post(self, verb, body, key):
        data = json.dumps(body).encode()
        content = self._json(self._patiently(lambda: self._open(f"{self._address()}:{verb}", data)))
        if not isinstance(content, dict) or key not in content:
            raise ServingError(f"{self.url}: expected an answer with {key!r}. Received: {content!r:.200}")
        return content[key]

    def _patiently(self, ask):
        """Asks again where the server is not there or overloaded."""
        for number in range(self.tries):
            try:
                return ask()
            except ServingError as error:
                if not error.may_retry or number == self.tries - 1:
                    raise
                time.sleep(_WAIT * 2**number)
        raise ValueError(f"ServingClient: `tries` must be at least 1. Received: {self.tries}")

    def _open(self, address, data=None):
        try:
            code, content = self._exchange(address, data)
        except ServingError:
            raise
        except http.client.IncompleteRead as error:
            raise ServingError(f"{address} broke its answer off: {error}", may_retry=True) from None
        except OSError as error:  # urllib's URLError among them
            cause = getattr(error, "reason", error)
            if isinstance(cause, TimeoutError):
                raise ServingError(f"{address} did not answer within {self.timeout:g} s") from None
            raise ServingError(f"{address} cannot be reached: {cause}", may_retry=True) from None
        except http.client.HTTPException as error:
            raise ServingError(f"{address}: expected an answer in HTTP (gRPC has another port): {error!r}") from None
        if 300 <= code < 400:
            raise ServingError(f"{address} answered {code}: a redirect, which is not followed")
        if code >= 400:
            raise ServingError(f"{address} answered {code}: {_reason(content)}", code in (429, 502, 503, 504))
        return content

    def _exchange(self, address, data):
        """(status, content)"""
        request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
        deadline = time.monotonic() + self.timeout
        try:
            response = _OPENER.open(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            response = error
        with response:
            return response.status, self._content(address, response, deadline)

    def _content(self, address, response, deadline):
        parts, size, expected = [], 0, response.length  # None: the answer does not say
        while size != expected and (part := response.read1(_PART)):
            parts.append(part)
            size += len(part)
            if size > MAX_MESSAGE:
                raise ServingError(f"{address}: expected an answer of at most {MAX_MESSAGE >> 20} MB; it sends more")
            if time.monotonic() > deadline:
                raise TimeoutError
        if expected is not None and size < expected:
            raise http.client.IncompleteRead(b"".join(parts), expected - size)
        return b"".join(parts)

    def _json(self, data):
        try:
            return parse_json(data, self.url)
        except ValueError as error:
            raise ServingError(str(error)) from None


def _reason(data):
    """The error of TensorFlow Serving's JSON; of others the text."""
    try:
        return parse_json(data, "the answer")["error"]
    except (ValueError, KeyError, TypeError):
        return data[:200].decode("utf-8", "replace") or "no reason given"


def _filled(inputs):
    """Lists of choices filled up with "", which is no choice, to the longest: a request has one shape."""
    filled = {}
    for name, column in inputs.items():
        rows = [row for row in column if isinstance(row, (list, tuple))]
        width = max(map(len, rows), default=0)
        filled[name] = [[*row, *[""] * (width - len(row))] for row in rows] if rows else column
    return filled
