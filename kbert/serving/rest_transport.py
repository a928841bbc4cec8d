"""TensorFlow Serving's REST interface, with requests."""

import base64
import http.client
import json
from typing import Any

import requests

from kbert.aliases import PathLike
from kbert.files import parse_json

MAX_MESSAGE = 256 * 2**20  # bytes of the largest answer that is read
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


class RestTransport:
    """Calls of a REST API, over persistent connections.

    `address` is that of a model: ``http://host:8501/v1/models/NAME``, perhaps with a version or label. `timeout` limits
    the connection, and then each wait for bytes of the answer. Redirects are not followed. `ServingClient` repeats
    requests: ``urllib3.Retry`` cannot tell a slow server, which should not get the request again, from one that closed
    the connection.

    Source: tensorflow.org/tfx/serving/api_rest.
    """

    def __init__(
        self,
        address: str,
        timeout: float,
        root_certificates: PathLike | None,
        client_certificate: tuple[PathLike, PathLike] | None,
    ) -> None:
        self.address = address
        self.timeout = timeout
        self._session = requests.Session()
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
        content = self._ask(f"{self.address}:{verb}", data, signature)
        key = "outputs" if verb == "predict" else "results"
        if not isinstance(content, dict) or key not in content:
            raise unexpected(self.address, f"an answer with {key!r}", content)
        return content[key]

    def metadata(self) -> dict[str, dict]:
        """dict of signature → {"inputs": …, "outputs": …}"""
        content = self._ask(f"{self.address}/metadata", None)
        try:
            return content["metadata"]["signature_def"]["signature_def"]
        except (KeyError, TypeError):
            raise unexpected(self.address, "the metadata of a model", content) from None

    def _ask(self, address: str, data: bytes | None, signature: str | None = None) -> Any:
        """The JSON that the server answers: to a GET, or to a POST of some data."""
        try:
            code, content = self._exchange(address, data)
        except requests.RequestException as error:
            raise _serving_error(address, error, self.timeout) from None
        if 300 <= code < 400:
            raise ServingError(f"{address} answered {code}: a redirect, which is not followed")
        if code >= 400:
            asked = f" (signature {signature!r})" if signature else ""
            message = f"{address} answered {code}: {_one_line(_reason(content))}{asked}"
            raise ServingError(message, may_retry=code in _BUSY)
        try:
            return parse_json(content, self.address)
        except ValueError as error:
            raise ServingError(str(error)) from None

    def _exchange(self, address: str, data: bytes | None) -> tuple[int, bytes]:
        """(status, content)"""
        with self._session.request(
            "GET" if data is None else "POST",
            address,
            data=data,
            timeout=self.timeout,  # to connect, and then between bytes
            stream=True,
            allow_redirects=False,
            verify=self._verify,
        ) as response:
            content = bytearray()
            try:
                for part in response.iter_content(_PART):
                    content += part
                    if len(content) > MAX_MESSAGE:
                        most = f"{MAX_MESSAGE >> 20} MB"
                        raise ServingError(f"{address}: expected an answer of at most {most}. Received: a longer one")
            except requests.ConnectionError as error:  # what `iter_content` makes of a read timeout
                raise requests.ReadTimeout(error) from None
            return response.status_code, bytes(content)


def request_json(verb: str, signature: str, rows: dict | list, **options) -> str:
    """The JSON of a request, with objects that stand for bytes; `options` go to `json.dumps`."""

    def encoded(value):
        return {"b64": base64.b64encode(value).decode()}

    key = "inputs" if verb == "predict" else "examples"
    return json.dumps({"signature_name": signature, key: rows}, default=encoded, **options)


def _serving_error(address: str, error: requests.RequestException, timeout: float) -> ServingError:
    """The error of a failed exchange, in one line."""
    cause = _innermost(error)
    if isinstance(error, requests.Timeout):
        return ServingError(f"{address} did not answer within {timeout:g} s")
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return ServingError(f"{address} broke its answer off: {cause}", may_retry=True)
    if isinstance(cause, http.client.HTTPException) and not isinstance(cause, ConnectionError):
        return ServingError(f"{address}: expected an answer in HTTP (gRPC has another port): {cause!r}")
    if isinstance(error, requests.exceptions.SSLError):  # waiting does not make a certificate valid
        return ServingError(f"{address} cannot be reached: {cause}")
    return ServingError(f"{address} cannot be reached: {cause}. {NO_SERVER}", may_retry=True)


def _innermost(error: BaseException) -> BaseException:
    """The error that requests and urllib3 wrap."""
    wrapped = [getattr(error, "reason", None), *reversed(error.args)]
    cause = next((cause for cause in wrapped if isinstance(cause, BaseException)), None)
    return error if cause is None else _innermost(cause)


def _reason(data: bytes) -> str:
    """The error in TensorFlow Serving's JSON, or else the text."""
    try:
        return str(parse_json(data, "the answer")["error"])
    except (ValueError, KeyError, TypeError):
        return data[:200].decode("utf-8", "replace") or "no reason given"


def _one_line(reason: str) -> str:
    """A server's words as an error quotes them: in one line, without codes for the terminal."""
    words = " ".join(reason[:_LONGEST_REASON].split())
    return "".join(letter for letter in words if letter.isprintable())
