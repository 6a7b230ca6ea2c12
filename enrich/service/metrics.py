"""Metrics for Prometheus over TCP. Whoever has some makes a page of them when it is asked for."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler

from enrich.service.bounded_http import BoundedServer

_log = logging.getLogger(__name__)

METRICS = "/metrics"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_PATIENCE_S = 5


class MetricsServer:
    """Answers GET /metrics, and nothing else, until it is closed; in threads of its own."""

    def __init__(self, address: str, port: int, page: Callable[[], bytes]) -> None:
        """Raises OSError for a port that cannot be had."""
        self._server = BoundedServer((address, port), _handler(page))
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="metrics", daemon=True
        ).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def metrics_server(address: str, port: int, page: Callable[[], bytes], next_step: str) -> MetricsServer | None:
    """None where the port is taken or cannot be had: that is logged, with what to do, and no reason for anything to
    end."""
    try:
        return MetricsServer(address, port, page)
    except OSError as error:
        reason = f"{address}:{port}: {error.strerror or error}; {next_step}"
        _log.warning("the metrics port cannot be opened", extra={"reason": reason})
        return None


class QuietHandler(BaseHTTPRequestHandler):
    """Answers without a word in any log."""

    timeout = _PATIENCE_S  # for a client that connects and says nothing

    def log_message(self, *_: object) -> None:
        """Nothing: each scrape would be a line."""

    def answer(self, status: HTTPStatus, content: bytes = b"") -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            self.send_header("Content-Type", METRICS_TYPE)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)


def _handler(page: Callable[[], bytes]) -> type[BaseHTTPRequestHandler]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            if self.path == METRICS:
                self.answer(HTTPStatus.OK, page())
            else:
                self.answer(HTTPStatus.NOT_FOUND)

        def do_POST(self) -> None:
            self.answer(HTTPStatus.NOT_FOUND)

    return Handler
