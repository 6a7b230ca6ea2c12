"""What others on the host ask of the agent, over a Unix socket in the store's directory: metrics, and small errands.

HTTP, so that `curl --unix-socket` and Prometheus' exporters understand it. An errand is done by the agent's loop, not
here: a request only leaves word. The TCP port, for Prometheus, answers nothing but the metrics.
"""

import http.client
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, ThreadingTCPServer, UnixStreamServer

from enrich.errors import Unreachable

_log = logging.getLogger(__name__)

METRICS = "/metrics"
REFRESH = "/refresh"
SUSPECT = "/suspect"

_SOCKET = "agent.sock"
_PATIENCE_S = 5
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class RequestServer:
    """Answers until it is closed, in threads of its own."""

    def __init__(self, folder: Path, metrics: Callable[[], bytes], errands: Mapping[str, Callable[[], None]]) -> None:
        """`errands`: path -> what leaves word."""
        (folder / _SOCKET).unlink(missing_ok=True)
        with _short(folder) as path:
            self._servers: list[UnixStreamServer | ThreadingTCPServer] = [_UnixServer(path, _handler(metrics, errands))]
        # Whoever may run the jobs may ask; nobody else.
        (folder / _SOCKET).chmod(0o600)
        self._metrics = metrics
        self._serve(self._servers[0])

    def listen(self, address: str, port: int) -> None:
        """Metrics for Prometheus. A port that is taken, by another pipeline's agent say, is logged and no more."""
        try:
            server = _TcpServer((address, port), _handler(self._metrics, {}))
        except OSError as error:
            reason = f"{address}:{port}: {error.strerror}; give each pipeline of a host another agent.metrics_port"
            _log.warning("the metrics port cannot be opened", extra={"reason": reason})
            return
        self._servers.append(server)
        self._serve(server)

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    @staticmethod
    def _serve(server: UnixStreamServer | ThreadingTCPServer) -> None:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()


def ask(folder: Path, method: str, path: str) -> bytes:
    """The agent's answer. Raises Unreachable when nobody answers there."""
    connection = _UnixConnection(folder)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        content = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(
            f"the agent does not answer: {error}", where=str(folder / _SOCKET), next_step="see `enrich agent status`"
        ) from error
    finally:
        connection.close()
    if response.status != HTTPStatus.OK:
        raise Unreachable(f"the agent answers {response.status} to {method} {path}", where=str(folder / _SOCKET))
    return content


class _short:  # noqa: N801 - a context manager, used like a function
    """The socket by a path of few characters: the kernel takes 107, and directories may be deeper."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> str:
        self._descriptor = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._descriptor}/{_SOCKET}"

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, folder: Path) -> None:
        super().__init__("localhost", timeout=_PATIENCE_S)
        self._folder = folder

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_PATIENCE_S)
        with _short(self._folder) as path:
            self.sock.connect(path)


class _UnixServer(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


class _TcpServer(ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


def _handler(metrics: Callable[[], bytes], errands: Mapping[str, Callable[[], None]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE_S  # for a client that connects and says nothing

        def do_GET(self) -> None:
            if self.path == METRICS:
                self._answer(HTTPStatus.OK, metrics())
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"")

        def do_POST(self) -> None:
            if self.path in errands:
                errands[self.path]()
                self._answer(HTTPStatus.OK, b"")
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"")

        def log_message(self, *_: object) -> None:
            """Nothing: each scrape would be a line."""

        def address_string(self) -> str:
            return "unix"

        def _answer(self, status: HTTPStatus, content: bytes) -> None:
            with suppress(BrokenPipeError, ConnectionResetError):
                self.send_response(status)
                self.send_header("Content-Type", _METRICS_TYPE)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

    return Handler
