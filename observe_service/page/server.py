"""Serves the page, the API and server-sent events; bounded, so that slow and hostile clients cost little."""

import base64
import hmac
import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

from enrich.service.bounded_http import BoundedServer
from enrich.service.page import METRICS_TYPE, HandlerServer, Page, QuietHandler

_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
_OPEN_TO_ALL = ("/healthz", "/readyz", "/metrics")
"""As other programs have them: orchestrators and Prometheus have no token. They name no event."""
_SAFE = {
    # Nothing of other hosts, and nothing that is written into the page by somebody else.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_EVENTS_EVERY_S = 1.0
_ALIVE_EVERY_S = 5.0
_MOST_WATCHERS = 32

Query = Mapping[str, str]
Answer = Callable[[Query], Any]
"""Raises LookupError for what there is not, ValueError for what cannot be asked so."""


class Watchers:
    """Whoever has the page open."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = 0
        self.count = 0
        self._making = threading.Lock()
        self._made = -1, b""

    def wait(self, seen: int) -> int:
        """Until there is something new, or it is time for a sign of life."""
        with self.changed:
            self.changed.wait_for(lambda: self.version != seen, _ALIVE_EVERY_S)
            return self.version

    def event(self, state: Callable[[], Any]) -> bytes:
        """The newest state as an event: made once, however many watch."""
        with self._making:
            if self._made[0] != self.version:
                version = self.version
                self._made = version, f"event: state\ndata: {json.dumps(state(), default=str)}\n\n".encode()
            return self._made[1]

    def tell(self) -> None:
        with self.changed:
            self.version += 1
            self.changed.notify_all()


class PageServer(HandlerServer):
    """The page with its files, the API, and what every program answers."""

    def __init__(
        self,
        address: str,
        port: int,
        page: Page,
        answers: Mapping[str, Answer],
        watchers: Watchers,
        token: str | None,
    ) -> None:
        """`answers`: by path below /api/. Raises OSError if it cannot listen on the port."""
        content = {path: (_content(name), kind) for path, (name, kind) in _FILES.items()}
        super().__init__(address, port, _handler(page, answers, content, watchers, token))


def _content(name: str) -> bytes:
    return files("observe_service.page").joinpath("static", name).read_bytes()


def _handler(
    page: Page,
    answers: Mapping[str, Answer],
    content: Mapping[str, tuple[bytes, str]],
    watchers: Watchers,
    token: str | None,
) -> type[BaseHTTPRequestHandler]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - the base class names it
            path, _, query = self.path.partition("?")
            if token is not None and path not in _OPEN_TO_ALL and not _has(self.headers.get("Authorization"), token):
                self._refuse()
                return
            if path in content:
                self._give(HTTPStatus.OK, *content[path])
            elif path == "/api/events":
                self._watch()
            elif path.startswith("/api/"):
                self._answer(path.removeprefix("/api/"), query)
            else:
                self._page(path)

        def do_HEAD(self) -> None:  # noqa: N802 - the base class names it
            self.do_GET()  # and `_give` leaves out the content

        def _answer(self, name: str, query: str) -> None:
            answer = answers.get(name)
            if answer is None:
                self._say(HTTPStatus.NOT_FOUND, {"error": f"there is no {name}", "there_are": sorted(answers)})
                return
            try:
                self._say(HTTPStatus.OK, answer({key: values[-1] for key, values in parse_qs(query).items()}))
            except LookupError as error:
                self._say(HTTPStatus.NOT_FOUND, {"error": str(error.args[0] if error.args else error)})
            except ValueError as error:
                self._say(HTTPStatus.BAD_REQUEST, {"error": str(error)})

        def _page(self, path: str) -> None:
            match path:
                case "/metrics":
                    self._give(HTTPStatus.OK, page.metrics(), METRICS_TYPE)
                case "/status":
                    self._say(HTTPStatus.OK, {**page.status()})
                case "/healthz":
                    self._say(HTTPStatus.OK, {"healthy": True})
                case "/readyz":
                    reasons = page.not_ready()
                    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
                    self._say(status, {"ready": not reasons, "not_ready": reasons})
                case _:
                    text = b"try /, /api/state, /healthz, /readyz, /metrics or /status\n"
                    self._give(HTTPStatus.NOT_FOUND, text, "text/plain")

        def _watch(self) -> None:
            """Server-sent events: the state when it has changed, once a second at most."""
            with watchers.changed:
                if watchers.count >= _MOST_WATCHERS:
                    self._say(HTTPStatus.SERVICE_UNAVAILABLE, {"error": f"{_MOST_WATCHERS} pages are open already"})
                    return
                watchers.count += 1
            if isinstance(self.server, BoundedServer):
                self.server.keep(self.request)
            try:
                with suppress(OSError):
                    self._send_events()
            finally:
                with watchers.changed:
                    watchers.count -= 1
                self.close_connection = True

        def _send_events(self) -> None:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/event-stream")
            for name, value in _SAFE.items():
                self.send_header(name, value)
            self.end_headers()
            seen = -1
            while self.command != "HEAD":
                seen = watchers.wait(seen)
                self.wfile.write(watchers.event(lambda: answers["state"]({})))
                self.wfile.flush()
                time.sleep(_EVENTS_EVERY_S)

        def _refuse(self) -> None:
            headers = {"WWW-Authenticate": 'Basic realm="enrich: any name, the token as password", charset="UTF-8"'}
            self._give(HTTPStatus.UNAUTHORIZED, b"a token is needed\n", "text/plain", headers)

        def _say(self, status: HTTPStatus, body: Any) -> None:
            self._give(status, json.dumps(body, default=str).encode(), "application/json")

        def _give(self, status: HTTPStatus, body: bytes, kind: str, more: Mapping[str, str] | None = None) -> None:
            with suppress(OSError):
                self.send_response(status)
                for name, value in {**_SAFE, **(more or {})}.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

    return Handler


def _has(authorization: str | None, token: str) -> bool:
    """As a bearer, or as the password that a browser asks for."""
    scheme, _, given = (authorization or "").partition(" ")
    if scheme.lower() == "basic":
        try:
            given = base64.b64decode(given, validate=True).decode().partition(":")[2]
        except (ValueError, UnicodeDecodeError):
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(given.strip().encode(), token.encode())
