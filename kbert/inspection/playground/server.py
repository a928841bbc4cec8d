"""The playground on a port of this machine."""

import ipaddress
import logging
import socket

from werkzeug.serving import WSGIRequestHandler, make_server

_LOGGER = logging.getLogger("kbert")


class PlaygroundServer:
    """Serves a WSGI application, each request in a thread of its own.

    Args:
        port: 0: one that is free.

    Attributes:
        address: "http://host:port/".

    Raises:
        OSError: the port is taken, or no such address; the message names it.
    """

    def __init__(self, app, host="127.0.0.1", port=0):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family)
        except (OSError, OverflowError) as error:  # OverflowError: no such port
            raise OSError(f"Expected a free port of this machine. Received: {host}, port {port}: {error}") from error
        port = self._socket.getsockname()[1]
        fileno = self._socket.fileno()
        self._server = make_server(host, port, app, threaded=True, request_handler=_Handler, fd=fileno)
        self._server.daemon_threads = True
        self.address = f"http://{_in_url(host)}:{port}/"

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


def _in_url(host):
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host
