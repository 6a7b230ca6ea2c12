"""A real HTTP server that has rows by their keys: `/rows/KEY`."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from enrich.dev.servers.ports import choose
from tests.support.waiting import GUARD_S


class RowsByKey:
    """It can be stopped and started again at the same port."""

    def __init__(self) -> None:
        (self._port,) = choose(1, ())
        self.rows: dict[str, Any] = {}
        self.answers: dict[str, tuple[int, bytes]] = {}
        """Of some keys something else than their rows."""
        self.asked: Counter[str] = Counter()
        self.most_at_once = 0
        self.gate = threading.Event()
        """While it is not set no answer is given."""
        self.gate.set()
        self._at_once = 0
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/rows/{{key}}"

    def start(self) -> None:
        ours = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = GUARD_S

            def do_GET(self) -> None:
                status, body = ours.answer(unquote(self.path.removeprefix("/rows/")))
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            allow_reuse_address = True
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Who asked was killed."""

        self._server = Server(("127.0.0.1", self._port), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def answer(self, key: str) -> tuple[int, bytes]:
        if self._server is None:  # of a connection that was kept
            return 503, b""
        with self._lock:
            self.asked[key] += 1
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        self.gate.wait(GUARD_S)
        with self._lock:
            self._at_once -= 1
        if key in self.answers:
            return self.answers[key]
        return (200, json.dumps(self.rows[key]).encode()) if key in self.rows else (404, b"no such row")


@contextmanager
def rows_by_key(**rows: Any) -> Iterator[RowsByKey]:
    server = RowsByKey()
    server.rows = dict(rows)
    server.start()
    try:
        yield server
    finally:
        server.gate.set()
        server.stop()
