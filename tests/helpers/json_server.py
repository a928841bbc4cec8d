"""A server on loopback that answers every request with the same JSON, over HTTP or HTTPS."""

import contextlib
import http.server
import json
import threading


class _Json(http.server.BaseHTTPRequestHandler):
    """Answers every POST with `content`, every GET with `metadata`; notes what was asked in `asked`."""

    content, metadata, asked = None, {}, None

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self._answer(self.metadata)

    def do_POST(self):
        self.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer(self.content)

    def _answer(self, content):
        self.asked.append(self.path)
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # such as a client that does not trust the certificate


@contextlib.contextmanager
def json_server(content, metadata=None, tls=None):
    """(address, list of the paths and bodies asked); `tls`: None, or the ssl.SSLContext of a server."""
    asked = []
    handler = type("Handler", (_Json,), {"content": content, "metadata": metadata or {}, "asked": asked})
    server = _Server(("127.0.0.1", 0), handler)
    if tls:  # the handshake in the thread of the request, not in the one that accepts
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
