"""The playground as a WSGI application, the files of its page and JSON, and on a port of this machine."""

import ipaddress
import json
import logging
import pathlib
import socket
import threading
import urllib.parse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from werkzeug.exceptions import HTTPException, abort
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

from kbert.files import parse_json
from kbert.options import PathLike

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from kbert.inspection.playground.api import PlaygroundApi

_LOGGER = logging.getLogger("kbert")
STATIC = pathlib.Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
}
_JSON = "application/json; charset=utf-8"
_LARGEST = 4 * 2**20  # bytes of a question
_READ_AWAY = 64 * 2**20  # bytes read of a larger one, so that the browser sees the refusal
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_ANY = ("0.0.0.0", "::", "")  # addresses that mean all of this machine's
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PlaygroundApp:
    """Serves the page at ``/``, its files beside it, ``GET api/models`` and ``POST api/<view>``.

    It answers only pages of its own origin. The Host of a request must be a name of this machine: a foreign page that
    was given this machine's address cannot have one. An Origin must be that host. The application reads only the files
    of the page and the models that it was pointed at, and writes nothing.

    Args:
        sources, log_dirs, vocabulary: see `kbert.inspection.playground.models.PlaygroundModels`.
        host: the address that is served. If it means all addresses, such as 0.0.0.0, every IP address is a valid Host.
        hosts: further valid Hosts, such as a proxy's name.

    Raises:
        ValueError: on the first use of `api`, Keras' backend is not TensorFlow. A faulty request raises nothing: its
            answer is a status and a sentence as JSON.
    """

    def __init__(
        self,
        sources: Iterable[PathLike] = (),
        log_dirs: Iterable[PathLike] = (),
        vocabulary: PathLike | None = None,
        host: str = "127.0.0.1",
        hosts: Iterable[str] = (),
    ) -> None:
        self._arguments = (tuple(sources), tuple(log_dirs), vocabulary)
        self._api = None
        self._lock = threading.Lock()
        self._takes_addresses = host in _ANY
        names = {socket.gethostname(), socket.getfqdn()} if self._takes_addresses else {host}
        self._proxies = frozenset(_bracketed(name.lower()) for name in hosts)
        self._hosts = _LOOPBACK | self._proxies | {_bracketed(name.lower()) for name in names}

    @property
    def api(self) -> "PlaygroundApi":
        """`kbert.inspection.playground.api.PlaygroundApi`, made when it is first needed: it imports TensorFlow."""
        with self._lock:
            if self._api is None:
                from kbert.training.hardware import processor_only

                processor_only()  # a training beside this may need the accelerator
                from kbert.inspection.playground.api import PlaygroundApi
                from kbert.inspection.playground.models import PlaygroundModels

                self._api = PlaygroundApi(PlaygroundModels(*self._arguments))
            return self._api

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        request = Request(environ)
        request.max_content_length = _LARGEST + 1
        try:
            response = self._answer(request)
        except HTTPException as error:  # of `abort`, or such as a body that ends early
            response = _json({"error": error.description or error.name}, error.code)
        except (ValueError, OSError) as error:  # what kbert expected, in a sentence
            response = _json({"error": first_line(error)}, 400)
        except Exception:
            _LOGGER.exception("playground: %s %s failed", request.method, request.path)
            response = _json({"error": "The playground failed; its log says why. Expected an answer."}, 500)
        response.headers.update(_HEADERS)
        return response(environ, start_response)

    def _answer(self, request):
        self._check_host(request)
        name = request.path.removeprefix("/") or "index.html"
        if name != "api" and not name.startswith("api/"):
            return _static(request, name)
        self._check_origin(request)
        view = name.removeprefix("api/")
        if view == "models":
            _check_method(request, "GET")
            return _json(self.api.list_models())
        if view not in self.api.views:
            names = ", ".join(("models", *self.api.views))
            abort(404, description=f"Expected api/ and one of {names}. Received: {name:.60}")
        _check_method(request, "POST")
        if request.mimetype != "application/json":
            received = request.mimetype[:60] or "none"
            abort(415, description=f"Expected the Content-Type application/json. Received: {received}")
        return _json(self.api.ask(view, _question(request)))

    def _check_host(self, request):
        host = _without_port(request.environ.get("HTTP_HOST", ""))
        if host not in self._hosts and not (self._takes_addresses and _is_address(host)):
            hosts = ", ".join(sorted(self._hosts))
            abort(403, description=f"Expected a request to {hosts}. Received: one to {host[:60] or 'no host'}")

    def _check_origin(self, request):
        """Refuses requests that other sites make a browser send here."""
        site = request.headers.get("Sec-Fetch-Site")
        origin = request.headers.get("Origin")
        foreign = site not in (None, "same-origin", "none")
        if origin is not None:
            place = urllib.parse.urlsplit(origin).netloc.lower()
            proxied = _without_port(place) in self._proxies  # a proxy may give the request another Host
            foreign = foreign or (place != request.environ.get("HTTP_HOST", "").lower() and not proxied)
        if foreign:
            abort(403, description=f"Expected a request of this page. Received: one of {(origin or site)[:60]}")


class PlaygroundServer:
    """Serves a WSGI application, each request in a thread of its own.

    Args:
        port: 0: one that is free.

    Attributes:
        address: "http://host:port/".

    Raises:
        OSError: the port is taken, or no such address; the message names it.
    """

    def __init__(self, app: "WSGIApplication", host: str = "127.0.0.1", port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family)
        except (OSError, OverflowError) as error:  # OverflowError: no such port
            raise OSError(f"Expected a free port of this machine. Received: {host}, port {port}: {error}") from error
        port = self._socket.getsockname()[1]
        fileno = self._socket.fileno()
        self._server = make_server(host, port, app, threaded=True, request_handler=_Handler, fd=fileno)
        self._server.daemon_threads = True
        self.address = f"http://{_bracketed(host)}:{port}/"

    def serve(self) -> None:
        """Answers until `close` is called or the process is interrupted."""
        try:
            self._server.serve_forever(poll_interval=0.1)
        finally:
            self._server.server_close()
            self._socket.close()

    def close(self) -> None:
        """Ends `serve`, which runs in another thread."""
        self._server.shutdown()


class _Handler(WSGIRequestHandler):
    """Writes nothing to the terminal, and gives up on clients that say nothing for a minute."""

    timeout = 60

    def log(self, type, message, *args):
        _LOGGER.debug("playground: " + message, *args)


def first_line(error: Exception) -> str:
    """The message of one of kbert's errors, for the user."""
    return (str(error).splitlines() or [type(error).__name__])[0][:500]


def _check_method(request, method):
    if request.method != method and not (method == "GET" and request.method == "HEAD"):
        abort(405, description=f"Expected the method {method}. Received: {request.method[:20]}")


def _question(request):
    expected = f"Expected at most {_LARGEST:,} bytes."
    if (length := request.content_length or 0) > _LARGEST:
        stream = request.environ["wsgi.input"]
        left = min(length, _READ_AWAY)
        while left > 0 and (part := stream.read(min(left, 2**20))):
            left -= len(part)
        abort(413, description=f"{expected} Received: {length:,}; shorten the text.")
    body = request.get_data(cache=False)
    if len(body) > _LARGEST:  # it was sent in chunks, without a length
        abort(413, description=f"{expected} Received: more; shorten the text.")
    return parse_json(body, "the request", parse_constant=_refuse_constant)


def _refuse_constant(name):
    raise ValueError(f"a finite number was expected, not {name}")


def _static(request, name):
    _check_method(request, "GET")
    files = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*")}
    path = files.get(name)  # names are compared, not joined: there is no way out of the directory
    if path is None or path.suffix not in _TYPES or path.is_symlink() or not path.is_file():
        abort(404, description=f"Expected a file of the page. Received: {name:.60}")
    return Response(path.read_bytes(), content_type=_TYPES[path.suffix], headers={"Cache-Control": "no-cache"})


def _json(value, status=200):
    try:
        body = json.dumps(value, allow_nan=False)
    except ValueError:
        return _json({"error": "Expected finite numbers of the model. Received: NaN: its weights are damaged."}, 400)
    return Response(body.encode(), status, content_type=_JSON, headers={"Cache-Control": "no-store"})


def _without_port(host):
    """A Host header, in lower case, without its port."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() else host.lower()


def _bracketed(name):
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


def _is_address(host):
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
