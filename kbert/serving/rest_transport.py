"""TensorFlow Serving's REST interface, with requests."""

import base64
import http.client
import io
import json
import time
import urllib.parse

import requests
import urllib3

from kbert.files import parse_json
from kbert.serving.messages import MAX_MESSAGE
from kbert.serving.serving_error import NO_SERVER, ServingError

_PART = 2**16  # bytes of an answer that are read at once
_BUSY = (429, 502, 503, 504)


class RestTransport:
    """Calls of a REST API, over persistent connections.

    Redirects are not followed. `ServingClient` repeats requests, for both transports: ``urllib3.Retry`` cannot tell a
    slow server, which should not get the request again, from one that closed the connection.

    Source: tensorflow.org/tfx/serving/api_rest.
    """

    def __init__(self, url, root_certificates, client_certificate):
        self.url = url
        self._session = requests.Session()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, _Adapter())
        self._session.headers.update({"Content-Type": "application/json", "Accept-Encoding": "identity"})
        # Not session.verify, which REQUESTS_CA_BUNDLE of the environment would override.
        self._verify = root_certificates and str(root_certificates)
        self._session.cert = client_certificate and tuple(map(str, client_certificate))

    def predict(self, spec, inputs, timeout):
        """dict of output → list, or a list if there is one output.

        Args:
            spec: dict with signature, and what `address_of` takes.
            inputs: dict of column → list of strings, str or bytes.
            timeout: seconds for the whole answer.
        """
        return self._post("predict", spec, {"inputs": inputs}, "outputs", timeout)

    def classify(self, spec, examples, timeout):
        """[(label, score), …] for each example."""
        return self._post("classify", spec, {"examples": examples}, "results", timeout)

    def regress(self, spec, examples, timeout):
        """A number for each example."""
        return self._post("regress", spec, {"examples": examples}, "results", timeout)

    def metadata(self, spec, timeout):
        """dict of signature → {"inputs": …, "outputs": …}"""
        content = self._ask(f"{address_of(self.url, spec)}/metadata", None, timeout)
        try:
            return content["metadata"]["signature_def"]["signature_def"]
        except (KeyError, TypeError):
            raise ServingError(f"{self.url}: expected the metadata of a model. Received: {content!r:.200}") from None

    def _post(self, verb, spec, body, key, timeout):
        data = request_json({"signature_name": spec["signature"], **body}).encode()
        content = self._ask(f"{address_of(self.url, spec)}:{verb}", data, timeout, spec["signature"])
        if not isinstance(content, dict) or key not in content:
            raise ServingError(f"{self.url}: expected an answer with {key!r}. Received: {content!r:.200}")
        return content[key]

    def _ask(self, address, data, timeout, signature=None):
        """The JSON that the server answers: to a GET, or to a POST of some data."""
        try:
            code, content = self._exchange(address, data, timeout)
        except (requests.RequestException, urllib3.exceptions.HTTPError, TimeoutError) as error:
            raise _serving_error(address, error, timeout) from None
        if 300 <= code < 400:
            raise ServingError(f"{address} answered {code}: a redirect, which is not followed")
        if code >= 400:
            asked = f" (signature {signature!r})" if signature else ""
            raise ServingError(f"{address} answered {code}: {_reason(content)}{asked}", code in _BUSY)
        try:
            return parse_json(content, self.url)
        except ValueError as error:
            raise ServingError(str(error)) from None

    def _exchange(self, address, data, timeout):
        """(status, content)"""
        method = "GET" if data is None else "POST"
        total = urllib3.Timeout(total=timeout)
        with self._session.request(
            method, address, data=data, timeout=total, stream=True, allow_redirects=False, verify=self._verify
        ) as response:
            parts, size = [], 0
            while part := response.raw.read1(_PART):
                parts.append(part)
                size += len(part)
                if size > MAX_MESSAGE:
                    raise ServingError(
                        f"{address}: expected an answer of at most {MAX_MESSAGE >> 20} MB. Received: one that is longer"
                    )
            return response.status_code, b"".join(parts)


class _TimedReads(io.RawIOBase):
    """A socket's bytes until its timeout, counted from now for all of them, not anew for each."""

    def __init__(self, stream, connection):
        super().__init__()
        self._stream, self._connection = stream, connection
        self._deadline = time.monotonic() + connection.gettimeout()

    def readable(self):
        return True

    def readinto(self, buffer):
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._stream.readinto(buffer)

    def close(self):
        self._stream.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    """Of status line, headers and body together, none may come after the timeout, however slowly the bytes come."""

    def __init__(self, sock, *arguments, **options):
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_TimedReads(self.fp.detach(), sock), _PART)


class HTTPConnection(urllib3.connection.HTTPConnection):
    response_class = _TimedResponse


class HTTPSConnection(urllib3.connection.HTTPSConnection):
    response_class = _TimedResponse


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = HTTPConnection


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = HTTPSConnection


_POOLS = {"http": _Pool, "https": _TlsPool}


class _Adapter(requests.adapters.HTTPAdapter):
    """Reads answers by `_TimedResponse`, also through a proxy."""

    def init_poolmanager(self, *arguments, **options):
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy, **options):
        manager = super().proxy_manager_for(proxy, **options)
        manager.pool_classes_by_scheme = _POOLS
        return manager


def request_json(body, **options):
    """The JSON of a request, with bytes as the object that stands for them; `options` of `json.dumps`."""
    return json.dumps(body, default=lambda value: {"b64": base64.b64encode(value).decode()}, **options)


def address_of(url, spec):
    """The URL of a model on a server. `spec`: dict with model, version and label, the last two possibly None."""
    version, label = spec["version"], spec["label"]
    which = f"/versions/{version}" if version is not None else ""
    which = f"/labels/{urllib.parse.quote(label, safe='')}" if label is not None else which
    return f"{url}/v1/models/{urllib.parse.quote(spec['model'], safe='')}{which}"


def _serving_error(address, error, timeout):
    """The error of a failed exchange, in one line."""
    causes = list(_causes(error))
    is_new = any(isinstance(cause, urllib3.exceptions.NewConnectionError) for cause in causes)  # a kind of TimeoutError
    if not is_new and any(isinstance(cause, (TimeoutError, urllib3.exceptions.TimeoutError)) for cause in causes):
        return ServingError(f"{address} did not answer within {timeout:g} s")
    if any(isinstance(cause, (http.client.IncompleteRead, urllib3.exceptions.IncompleteRead)) for cause in causes):
        return ServingError(f"{address} broke its answer off: {causes[-1]}", may_retry=True)
    if isinstance(causes[-1], http.client.HTTPException) and not isinstance(causes[-1], ConnectionError):
        return ServingError(f"{address}: expected an answer in HTTP (gRPC has another port): {causes[-1]!r}")
    if isinstance(error, requests.exceptions.SSLError):  # waiting does not make a certificate valid
        return ServingError(f"{address} cannot be reached: {causes[-1]}")
    return ServingError(f"{address} cannot be reached: {causes[-1]}. {NO_SERVER}", may_retry=True)


def _causes(error):
    """An error of requests and those that it wraps, the innermost last."""
    while error is not None:
        yield error
        wrapped = [getattr(error, "reason", None), *reversed(error.args)]
        error = next((one for one in wrapped if isinstance(one, BaseException)), None)


def _reason(data):
    """The error of TensorFlow Serving's JSON; of others the text."""
    try:
        return parse_json(data, "the answer")["error"]
    except (ValueError, KeyError, TypeError):
        return data[:200].decode("utf-8", "replace") or "no reason given"
