"""TensorFlow Serving's REST interface, with requests; and what both transports share."""

import base64
import dataclasses
import http.client
import io
import json
import time
import urllib.parse
from typing import Any

import requests
import urllib3

from kbert.files import parse_json
from kbert.options import PathLike

# Bytes of the largest answer that is read; gRPC's default of 4 MB is less than a batch of features.
MAX_MESSAGE = 256 * 2**20
NO_SERVER = "Is TensorFlow Serving running there (docs/serving.md)? Without a server, kbert predict answers."

_LONGEST_REASON = 2000  # characters
_PART = 2**16  # bytes of an answer that are read at once
_BUSY = (429, 502, 503)


class ServingError(OSError):
    """A server that cannot be reached, is too slow, refuses, or returns an invalid answer.

    Attributes:
        may_retry: whether repeating the request soon may help.
    """

    def __init__(self, message: str, may_retry: bool = False) -> None:
        super().__init__(message)
        self.may_retry = may_retry


def unexpected(url: str, expected: str, received: Any) -> ServingError:
    """The error for an answer that is not one of TensorFlow Serving's."""
    return ServingError(f"{url}: expected {expected}. Received: {received!r:.200}")


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """A model on a server: the server's URL, its name, and a version, a label or neither."""

    url: str
    name: str
    version: int | None = None
    label: str | None = None

    @property
    def rest_address(self) -> str:
        """The model's URL, if `url` is a REST interface."""
        address = f"{self.url}/v1/models/{urllib.parse.quote(self.name, safe='')}"
        if self.label is not None:
            return f"{address}/labels/{urllib.parse.quote(self.label, safe='')}"
        return address if self.version is None else f"{address}/versions/{self.version}"


class RestTransport:
    """Calls of a REST API, over persistent connections.

    `timeout` is for the whole answer to a call. Redirects are not followed. `ServingClient` repeats requests, for both
    transports: ``urllib3.Retry`` cannot tell a slow server, which should not get the request again, from one that
    closed the connection.

    Source: tensorflow.org/tfx/serving/api_rest.
    """

    def __init__(
        self,
        model: ServedModel,
        timeout: float,
        root_certificates: PathLike | None,
        client_certificate: tuple[PathLike, PathLike] | None,
    ) -> None:
        self.model = model
        self.timeout = timeout
        self._session = requests.Session()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, _Adapter())
        self._session.headers.update({"Content-Type": "application/json", "Accept-Encoding": "identity"})
        # Not session.verify, which REQUESTS_CA_BUNDLE of the environment would override.
        self._verify = root_certificates and str(root_certificates)
        self._session.cert = client_certificate and tuple(map(str, client_certificate))

    def call(self, verb: str, signature: str, rows: dict[str, list] | list[dict]) -> Any:
        """What the server answers to predict, classify or regress: columns of str or bytes, or examples.

        Predict gives outputs by name, or a list if there is one; classify [(label, score), …] for each example, regress
        a number.
        """
        data = request_json(verb, signature, rows).encode()
        content = self._ask(f"{self.model.rest_address}:{verb}", data, signature)
        key = "outputs" if verb == "predict" else "results"
        if not isinstance(content, dict) or key not in content:
            raise unexpected(self.model.url, f"an answer with {key!r}", content)
        return content[key]

    def metadata(self) -> dict[str, dict]:
        """dict of signature → {"inputs": …, "outputs": …}"""
        content = self._ask(f"{self.model.rest_address}/metadata", None)
        try:
            return content["metadata"]["signature_def"]["signature_def"]
        except (KeyError, TypeError):
            raise unexpected(self.model.url, "the metadata of a model", content) from None

    def _ask(self, address: str, data: bytes | None, signature: str | None = None) -> Any:
        """The JSON that the server answers: to a GET, or to a POST of some data."""
        try:
            code, content = self._exchange(address, data)
        except (requests.RequestException, urllib3.exceptions.HTTPError, TimeoutError) as error:
            raise _serving_error(address, error, self.timeout) from None
        if 300 <= code < 400:
            raise ServingError(f"{address} answered {code}: a redirect, which is not followed")
        if code >= 400:
            asked = f" (signature {signature!r})" if signature else ""
            message = f"{address} answered {code}: {one_line(_reason(content))}{asked}"
            raise ServingError(message, may_retry=code in _BUSY)
        try:
            return parse_json(content, self.model.url)
        except ValueError as error:
            raise ServingError(str(error)) from None

    def _exchange(self, address: str, data: bytes | None) -> tuple[int, bytes]:
        """(status, content)"""
        with self._session.request(
            "GET" if data is None else "POST",
            address,
            data=data,
            timeout=urllib3.Timeout(total=self.timeout),
            stream=True,
            allow_redirects=False,
            verify=self._verify,
        ) as response:
            content = bytearray()
            while part := response.raw.read1(_PART):
                content += part
                if len(content) > MAX_MESSAGE:
                    most = f"{MAX_MESSAGE >> 20} MB"
                    raise ServingError(f"{address}: expected an answer of at most {most}. Received: one that is longer")
            return response.status_code, bytes(content)


class _TimedReads(io.RawIOBase):
    """A socket's bytes until one timeout, which counts from now for all of them together."""

    def __init__(self, stream, connection):
        super().__init__()
        self._stream = stream
        self._connection = connection
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
    """A response with one timeout for status line, headers and body, however slowly the bytes come.

    The libraries' own timeouts begin anew with every byte.
    """

    def __init__(self, sock, *arguments, **options):
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_TimedReads(self.fp.detach(), sock), _PART)


class HTTPConnection(urllib3.connection.HTTPConnection):
    response_class = _TimedResponse


class HTTPSConnection(urllib3.connection.HTTPSConnection):
    response_class = _TimedResponse


class _Adapter(requests.adapters.HTTPAdapter):
    """Reads answers by `_TimedResponse`, also through a proxy."""

    def get_connection_with_tls_context(self, *arguments, **options):
        pool = super().get_connection_with_tls_context(*arguments, **options)
        pool.ConnectionCls = HTTPSConnection if pool.scheme == "https" else HTTPConnection
        return pool


def request_json(verb: str, signature: str, rows: dict | list, **options) -> str:
    """The JSON of a request, with objects that stand for bytes; `options` go to `json.dumps`."""

    def encoded(value):
        return {"b64": base64.b64encode(value).decode()}

    key = "inputs" if verb == "predict" else "examples"
    return json.dumps({"signature_name": signature, key: rows}, default=encoded, **options)


def _serving_error(address: str, error: Exception, timeout: float) -> ServingError:
    """The error of a failed exchange, in one line."""
    causes = list(_causes(error))
    cause = causes[-1]

    def is_any(*kinds):
        return any(isinstance(cause, kinds) for cause in causes)

    is_new = is_any(urllib3.exceptions.NewConnectionError)  # a kind of urllib3's TimeoutError
    if not is_new and is_any(TimeoutError, urllib3.exceptions.TimeoutError):
        return ServingError(f"{address} did not answer within {timeout:g} s")
    if is_any(http.client.IncompleteRead, urllib3.exceptions.IncompleteRead):
        return ServingError(f"{address} broke its answer off: {cause}", may_retry=True)
    if isinstance(cause, http.client.HTTPException) and not isinstance(cause, ConnectionError):
        return ServingError(f"{address}: expected an answer in HTTP (gRPC has another port): {cause!r}")
    if isinstance(error, requests.exceptions.SSLError):  # waiting does not make a certificate valid
        return ServingError(f"{address} cannot be reached: {cause}")
    return ServingError(f"{address} cannot be reached: {cause}. {NO_SERVER}", may_retry=True)


def _causes(error: BaseException | None):
    """An error of requests and the errors that it wraps, the innermost last."""
    while error is not None:
        yield error
        wrapped = [getattr(error, "reason", None), *reversed(error.args)]
        error = next((cause for cause in wrapped if isinstance(cause, BaseException)), None)


def _reason(data: bytes) -> str:
    """The error in TensorFlow Serving's JSON, or else the text."""
    try:
        return str(parse_json(data, "the answer")["error"])
    except (ValueError, KeyError, TypeError):
        return data[:200].decode("utf-8", "replace") or "no reason given"


def one_line(reason: str) -> str:
    """A server's words as an error quotes them: in one line, without codes for the terminal."""
    words = " ".join(reason[:_LONGEST_REASON].split())
    return "".join(letter for letter in words if letter.isprintable())
