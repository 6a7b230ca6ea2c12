"""How the service is, over HTTP: /healthz and /readyz for orchestrators, /metrics for Prometheus, /status for all."""

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler
from typing import Any

from enrich.base.errors import ConfigError
from enrich.service.bounded_http import BoundedServer
from sync_service.metrics import exposition
from sync_service.routes import RouteState, RouteStatus
from sync_service.service import Service

_log = logging.getLogger("enrich.sync")


class StatusServer:
    """Answers in threads of its own from `start` to `stop`."""

    def __init__(self, service: Service, pipeline: str, listen: str) -> None:
        """Raises ConfigError when the address cannot be had."""
        host, _, port = listen.rpartition(":")
        try:
            self._server = _Server((host.strip("[]"), int(port)), service, pipeline)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {listen}: {error.strerror}", where="sync.listen", next_step="choose another address"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="status", daemon=True)

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def start(self) -> None:
        self._thread.start()
        _log.info("the status is told on http://%s/status", self.address)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(BoundedServer):
    def __init__(self, address: tuple[str, int], service: Service, pipeline: str) -> None:
        self.service = service
        self.pipeline = pipeline
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "enrich-sync"
    timeout = 10  # of a client that says nothing

    def do_GET(self) -> None:
        statuses = self.server.service.statuses()
        match self.path.partition("?")[0]:
            case "/healthz":
                stopped = {status.name: status.last_error for status in statuses if status.state is RouteState.stopped}
                body = {"healthy": not stopped, **({"stopped": stopped} if stopped else {})}
                self._answer(503 if stopped else 200, "application/json", json.dumps(body))
            case "/readyz":
                reasons = dict(_not_ready(statuses))
                body = {"ready": not reasons, "not_ready": reasons}
                self._answer(503 if reasons else 200, "application/json", json.dumps(body))
            case "/metrics":
                self._answer(200, "text/plain; version=0.0.4; charset=utf-8", exposition(statuses))
            case "/status":
                body = {"pipeline": self.server.pipeline, "routes": [_told(status) for status in statuses]}
                self._answer(200, "application/json", json.dumps(body, default=str))
            case _:
                self._answer(404, "text/plain", "try /healthz, /readyz, /metrics or /status\n")

    def _answer(self, code: int, kind: str, body: str) -> None:
        content = body.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a scrape every few seconds is no news."""


def _told(status: RouteStatus) -> dict[str, Any]:
    return {name: value for name, value in asdict(status).items() if name != "is_of_interest"}


def _not_ready(statuses: list[RouteStatus]) -> Iterator[tuple[str, str]]:
    for status in statuses:
        # One that waits for its turn is as ready as it can be: a rolling update waits for it before it ends another.
        if status.state not in (RouteState.running, RouteState.standby, RouteState.paused):
            yield status.name, status.last_error or status.state.value
