"""A client of TensorFlow Serving, over REST and gRPC. It imports no TensorFlow.

Shapes: B rows, m entries of a padded output.
"""

import shlex
import time
import urllib.parse

from kbert.checks import check_positive
from kbert.serving.check_version import check_version
from kbert.serving.request_columns import check_examples, check_string, request_columns
from kbert.serving.rest_transport import RestTransport, address_of, request_json
from kbert.serving.serving_error import ServingError

_REST_PORT = 8501  # TensorFlow Serving's default
_LONGEST = 10**6  # seconds; sockets cannot wait much longer than a thousand times that
_WAIT = 0.2  # seconds before the second try, doubled each time
_COUNTS = ("n_best_count", "count")  # outputs int [B]: how many entries of each row are real


class ServingClient:
    """Sends requests to a model on a TensorFlow Serving server.

    Args:
        url: ``http://host:8501`` or ``https://…`` (REST), or ``grpc://host:8500`` or, with TLS, ``grpcs://…``.
        model: the model's name on the server.
        version: its version; None: the server's choice.
        label: a version label, such as "stable", in place of a version.
        timeout: seconds that one attempt waits for an answer, up to its last byte.
        tries: the number of attempts if the server cannot be reached or is overloaded (REST 429, 502, 503, 504;
            gRPC UNAVAILABLE, RESOURCE_EXHAUSTED). A slow request is not repeated, which would add to the load.
        root_certificates: for https and grpcs, a PEM file of the certificates that sign the server's; None: those of
            the public authorities.
        client_certificate: for a server that authenticates its clients, the files (certificate, key), both PEM.

    Raises:
        ValueError: a URL of another kind, a model or label that is not a string, a version that is not a positive int,
            both a version and a label, a timeout that is not a positive number, certificates without TLS, no `tries`.
        OSError: a file of certificates that cannot be read.

    Every call raises `ServingError` with the reason if there is no answer. Answers of more than 256 MB are not read,
    and redirects are not followed, so that texts are sent only to the server that was named.

    Example::

        client = ServingClient("http://localhost:8501", "reviews")
        client.predict({"text": ["A charming journey."]})["label"]  # ["positive"]
    """

    def __init__(
        self,
        url,
        model,
        version=None,
        label=None,
        timeout=10.0,
        tries=3,
        root_certificates=None,
        client_certificate=None,
    ):
        scheme = _checked_scheme(url)
        if version is not None and label is not None:
            raise ValueError(f"ServingClient: give a version or a label. Received: {version!r} and {label!r}")
        if version is not None:
            check_version("ServingClient", version)
        check_string("model", model)
        if label is not None:
            check_string("label", label)
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= _LONGEST:
            raise ValueError(
                f"ServingClient: `timeout` must be a positive number of seconds, at most {_LONGEST}. "
                f"Received: {timeout!r}"
            )
        if (root_certificates or client_certificate) and scheme not in ("https", "grpcs"):
            raise ValueError(f"ServingClient: certificates are for https:// and grpcs://. Received: {url!r}")
        check_positive("ServingClient", tries=tries)
        if client_certificate is not None and (
            not isinstance(client_certificate, tuple | list) or len(client_certificate) != 2
        ):
            raise ValueError(
                "ServingClient: `client_certificate` must be two files, (certificate, key). "
                f"Received: {client_certificate!r}"
            )
        for file in filter(None, (root_certificates, *(client_certificate or ()))):
            open(file, "rb").close()  # an error now, not at the first request
        self.url, self.model = url.rstrip("/"), model
        self.version, self.label = version, label
        self.timeout, self.tries = timeout, tries
        self._only_outputs = {}  # signature → the name of its output, where it has only one
        transport = RestTransport
        if scheme.startswith("grpc"):
            from kbert.serving.grpc_transport import GrpcTransport as transport  # needs grpcio
        self._transport = transport(self.url, root_certificates, client_certificate)

    def predict(self, inputs, signature="serving_default"):
        """Answers: dict of output → list, one entry per row.

        Padding is removed from entries that are lists, by the output ``count`` (of an n-best list ``n_best_count``).

        Args:
            inputs: dict of column → list of strings (for choices: of lists of strings, which may differ in length), or
                NumPy arrays of them; or a pandas DataFrame of the columns. Strings are str or bytes.
            signature: name of the signature.

        Raises:
            ValueError: columns of different lengths, or one that is not a list of strings or of lists of strings.
        """
        check_string("signature", signature)
        inputs = request_columns(inputs)
        found = self._with_retries(lambda: self._transport.predict(self._spec(signature), inputs, self.timeout))
        if not isinstance(found, dict):
            found = {self._only_output(signature): found}  # a single output is returned without its name
        rows = len(next(iter(inputs.values()), ()))
        return trim_answers({name: self._rows(values, rows) for name, values in found.items()}, self.url)

    def classify(self, examples, signature="classify"):
        """(label, score) of all classes for each example; `examples`: list of dicts of column → string.

        Raises:
            ValueError: `examples` of another kind.
        """
        check_string("signature", signature)
        check_examples(examples)
        rows = self._with_retries(lambda: self._transport.classify(self._spec(signature), examples, self.timeout))
        try:
            return [[(label, score) for label, score in row] for row in self._rows(rows, len(examples))]
        except (TypeError, ValueError):
            raise ServingError(f"{self.url}: expected labels and scores. Received: {rows!r:.200}") from None

    def regress(self, examples, signature="regress"):
        """A number for each example; `examples`: list of dicts of column → string.

        Raises:
            ValueError: `examples` of another kind.
        """
        check_string("signature", signature)
        check_examples(examples)
        rows = self._with_retries(lambda: self._transport.regress(self._spec(signature), examples, self.timeout))
        return self._rows(rows, len(examples))

    def metadata(self):
        """The model's signatures, from the server: dict of signature → {"inputs": …, "outputs": …}.

        Raises:
            ValueError: a gRPC client; only REST has this.
        """
        if not isinstance(self._transport, RestTransport):
            raise ValueError(f"metadata: expected a client of http:// or https://. Received: {self.url}")
        return self._with_retries(lambda: self._transport.metadata(self._spec(), self.timeout))

    def curl(self, inputs, signature="serving_default", verb="predict"):
        """The curl command of the same request over REST; for a client over gRPC, at TensorFlow Serving's default port.

        Args:
            inputs: as for `predict`; for the verbs classify and regress the examples.
            signature: name of the signature.
            verb: predict, classify or regress.
        """
        if verb == "predict":
            asked = {"inputs": request_columns(inputs)}
        else:
            check_examples(inputs)
            asked = {"examples": inputs}
        body = request_json({"signature_name": signature, **asked}, ensure_ascii=False)
        address = f"{address_of(_rest_url(self.url), self._spec())}:{verb}"
        return f"curl --max-time {self.timeout:g} -d {shlex.quote(body)} {shlex.quote(address)}"

    def _spec(self, signature=None):
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
        """An output's values, after checking that there is one for each row sent."""
        if not isinstance(values, list) or len(values) != rows:
            raise ServingError(f"{self.url}: expected a list of {rows} answers. Received: {values!r:.200}")
        return values

    def _with_retries(self, ask):
        """Repeats a request if the server cannot be reached or is overloaded."""
        for number in range(self.tries - 1):
            try:
                return ask()
            except ServingError as error:
                if not error.may_retry:
                    raise
                time.sleep(_WAIT * 2**number)
        return ask()


def _checked_scheme(url):
    expected = "expected http://host:8501, https://…, grpc://host:8500 or grpcs://…"
    check_string("url", url)
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https", "grpc", "grpcs") or not parts.netloc:
        raise ValueError(f"ServingClient: {expected}. Received: {url!r}")
    try:
        parts.port  # noqa: B018  a property that checks
    except ValueError as error:
        raise ValueError(f"ServingClient: {expected}. Received: {url!r} ({error})") from None
    return parts.scheme


def _rest_url(url):
    """A client's URL, or the one of the same server's REST."""
    parts = urllib.parse.urlsplit(url)
    if not parts.scheme.startswith("grpc"):
        return url
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme.replace('grpc', 'http')}://{host}:{_REST_PORT}"


def trim_answers(answers, url=""):
    """The outputs of a kbert model without padding; the counts themselves stay.

    Outputs have the same width for every row, so that a server can batch. ``count`` is the number of real entries of a
    row (masks, words, entities or tokens); ``n_best_count`` is that of the outputs ``n_best_…``.

    Args:
        answers: dict of output → list of B; an output [B, m, …] is a list of lists.
        url: of the server, for messages.

    Raises:
        ServingError: a count that is not a possible number of entries.

    Example::

        trim_answers({"tokens": [[["capital", "heart"], ["", ""]]], "count": [1]})["tokens"]  # [[["capital", "heart"]]]
    """
    return {name: _trimmed(name, values, answers, url) for name, values in answers.items()}


def _trimmed(name, values, answers, url):
    counter = _COUNTS[0] if name.startswith("n_best") else _COUNTS[1]
    if name in _COUNTS or counter not in answers or not all(isinstance(row, list) for row in values):
        return values
    counts = answers[counter]
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        raise ServingError(f"{url}: expected numbers of entries as {counter!r}. Received: {counts!r:.200}")
    return [row[:count] for row, count in zip(values, counts, strict=True)]
