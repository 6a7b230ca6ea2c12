"""Requests to the agent over a Unix socket in the store's directory: metrics, and small errands.

HTTP, so that `curl --unix-socket` and Prometheus exporters understand it. A request only queues an errand: the agent's
loop carries it out. The TCP port, for Prometheus, serves only the metrics.
"""

import http.client
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

from enrich.base.error_wire import from_wire, to_wire
from enrich.base.errors import EnrichError, Unreachable
from enrich.service.page import METRICS, QuietHandler

REFRESH = "/refresh"
SUSPECT = "/suspect"
SUSPECT_SEGMENTS = "/suspect-segments"
REBUILD = "/rebuild/"
PURGE = "/purge/"
DEMAND = "/demand/"
WAIT = "/wait/"
"""Followed by the name of a table."""
SCHEMAS = "/schemas/"
"""Followed by an id."""

_SOCKET = "agent.sock"
_PATIENCE_S = 5
_RAISED = HTTPStatus.UNPROCESSABLE_ENTITY
"""The answer's body is an error of our tree, which the caller raises."""

Orders = Mapping[str, Callable[[bytes], object]]
"""Path -> what queues an errand, given the request's body. If it returns bytes, they are the answer; an error of our
tree is raised again in `ask`."""
Questions = Mapping[str, Callable[[str], bytes]]
"""Prefix of a path -> what answers, given the rest of the path. An error of our tree is raised again in `ask`."""
NO_QUESTIONS: Questions = {}


class RequestServer:
    """Answers requests in threads of its own until it is closed."""

    def __init__(
        self,
        folder: Path,
        metrics: Callable[[], bytes],
        orders: Orders,
        questions: Questions = NO_QUESTIONS,
    ) -> None:
        (folder / _SOCKET).unlink(missing_ok=True)
        with _short(folder) as path:
            self._server = _UnixServer(path, _handler(metrics, orders, questions))
        # Only the user who runs the jobs may send requests.
        (folder / _SOCKET).chmod(0o600)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class NoAnswer(Unreachable):
    """There is no agent."""


def ask(folder: Path, method: str, path: str, body: bytes | None = None, *, patience_s: float = _PATIENCE_S) -> bytes:
    """The agent's answer. Raises NoAnswer if no agent answers, or else the error that the agent answered with."""
    connection = _UnixConnection(folder, patience_s)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        content = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(
            f"the agent does not answer: {error}", where=str(folder / _SOCKET), next_step="see `enrich agent status`"
        ) from error
    finally:
        connection.close()
    if response.status == _RAISED:
        raise from_wire(json.loads(content))
    if response.status != HTTPStatus.OK:
        raise Unreachable(f"the agent answered {response.status} to {method} {path}", where=str(folder / _SOCKET))
    return content


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A short path to the socket: the kernel allows 107 characters, and directories may have longer paths."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{_SOCKET}"
    finally:
        os.close(descriptor)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, folder: Path, patience_s: float) -> None:
        super().__init__("localhost")
        self._folder = folder
        self._patience_s = patience_s

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._patience_s)
        with _short(self._folder) as path:
            self.sock.connect(path)


class _UnixServer(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


def _handler(metrics: Callable[[], bytes], orders: Orders, questions: Questions) -> type[BaseHTTPRequestHandler]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - as http.server calls it
            if self.path == METRICS:
                self.answer(HTTPStatus.OK, metrics())
                return
            for beginning, answer in questions.items():
                if self.path.startswith(beginning):
                    self._answer_by(partial(answer, self.path.removeprefix(beginning)))
                    return
            self.answer(HTTPStatus.NOT_FOUND)

        def _answer_by(self, answered: Callable[[], object]) -> None:
            try:
                content = answered()
            except EnrichError as error:
                self.answer(_RAISED, json.dumps(to_wire(error)).encode())
            else:
                self.answer(HTTPStatus.OK, content if isinstance(content, bytes) else b"")

        def do_POST(self) -> None:  # noqa: N802
            if self.path in orders:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self._answer_by(partial(orders[self.path], body))
            else:
                self.answer(HTTPStatus.NOT_FOUND)

    return Handler
