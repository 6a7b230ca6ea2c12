"""The HTTP page of a program: /healthz and /readyz for orchestrators, /metrics for Prometheus, /status for people."""

import json
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

from enrich.base.addresses import host_and_port
from enrich.service.bounded_http import BoundedServer

_log = logging.getLogger(__name__)

METRICS = "/metrics"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_PATIENCE_S = 5


def _none() -> Mapping[str, str | None]:
    return {}


@dataclass(frozen=True)
class Page:
    """What a program reports about itself. The functions are called for each request, by threads of the server."""

    metrics: Callable[[], bytes]
    status: Callable[[], Mapping[str, Any]]
    stopped: Callable[[], Mapping[str, str | None]] = _none
    """Parts that have stopped for good, and why: only a restart helps."""
    not_ready: Callable[[], Mapping[str, str | None]] = _none
    """Parts that are not ready, and why."""


class HandlerServer:
    """Until it is closed; in its own threads."""

    def __init__(self, address: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        """Raises OSError if it cannot listen on the port."""
        self._server = BoundedServer((address, port), handler)
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="page", daemon=True
        ).start()

    @property
    def address(self) -> str:
        """As it stands in a URL: an IPv6 address in brackets."""
        host, port = self._server.server_address[:2]
        return host_and_port(str(host), port)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class PageServer(HandlerServer):
    """Answers GET and HEAD for the page's four paths, and nothing else."""

    def __init__(self, address: str, port: int, page: Page) -> None:
        """Raises OSError if it cannot listen on the port."""
        super().__init__(address, port, _handler(page))


def serve_page(address: str, port: int, page: Page, next_step: str) -> PageServer | None:
    """None if the port is taken or cannot be opened: that is logged with `next_step`, and the program goes on."""
    try:
        return PageServer(address.strip("[]"), port, page)
    except OSError as error:
        reason = f"{host_and_port(address.strip('[]'), port)}: {error.strerror or error}; {next_step}"
        _log.warning("the metrics port cannot be opened", extra={"reason": reason})
        return None


class QuietHandler(BaseHTTPRequestHandler):
    """Answers and logs nothing: each scrape would be a line."""

    timeout = _PATIENCE_S  # for a client that connects and sends nothing

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def answer(self, status: HTTPStatus, content: bytes = b"", kind: str = METRICS_TYPE) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)


def _handler(page: Page) -> type[BaseHTTPRequestHandler]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/metrics":
                    self.answer(HTTPStatus.OK, page.metrics())
                case "/status":
                    self._answer_json({**page.status()})
                case "/healthz":
                    stopped = page.stopped()
                    self._answer_json({"healthy": not stopped, **({"stopped": stopped} if stopped else {})}, stopped)
                case "/readyz":
                    reasons = page.not_ready()
                    self._answer_json({"ready": not reasons, "not_ready": reasons}, reasons)
                case _:
                    content = b"try /healthz, /readyz, /metrics or /status\n"
                    self.answer(HTTPStatus.NOT_FOUND, content, "text/plain")

        def do_HEAD(self) -> None:
            self.do_GET()  # and `answer` leaves out the content

        def do_POST(self) -> None:
            self.answer(HTTPStatus.NOT_FOUND)

        def _answer_json(self, body: Mapping[str, Any], wrong: Mapping[str, Any] | None = None) -> None:
            status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
            self.answer(status, json.dumps(body, default=str).encode(), "application/json")

    return Handler
