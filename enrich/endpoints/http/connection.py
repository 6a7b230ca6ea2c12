"""A connection to an endpoint: one request after the other, and answers that are bounded in every direction."""

import asyncio
import re
import ssl
from typing import cast

import httptools

from enrich.endpoints import tls_reason
from enrich.endpoints.http.answer import Answer, NoAnswer, shown
from enrich.endpoints.http.hiding import Hidden

MOST_HEAD_BYTES = 32 << 10
"""Of all heads of an answer, interim ones and trailers included."""
MOST_BODY_BYTES = 64 << 10
"""What is longer is not read further: the answer counts, and the connection is closed."""
_MOST_BYTES = 4 * MOST_BODY_BYTES
"""Of an answer as it comes: chunks may be as small as their headers are long."""
_KEPT_BYTES = 4096
"""Of a body, to be shown."""
_HINT = re.compile(rb"timeout=([0-9]{1,6})")
_BODILESS = (204, 304)


class Connection(asyncio.Protocol):
    """Nothing is repeated here: whatever a request meets, its caller hears of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, hidden: Hidden) -> None:
        self._loop = loop
        self._hidden = hidden
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[Answer] | None = None
        self.is_open = False
        """Whether another request may be sent."""
        self.server_keeps_s: float | None = None
        """For how long the endpoint keeps it open without a request, as far as it says so."""
        self._clear()

    def _clear(self) -> None:
        self._bytes = 0
        self._head_bytes = 0
        self._body_bytes = 0
        self._start = b""
        self._retry_after: str | None = None
        self._date: str | None = None
        self._is_framed = False
        self._is_in_body = False
        self._wrong: str | None = None

    async def exchange(self, head: bytes, body: bytes) -> Answer:
        """Sends a request and returns its answer. Raises NoAnswer. If it is cancelled, the connection is closed."""
        self._clear()
        waiter: asyncio.Future[Answer] = self._loop.create_future()
        self._waiter = waiter
        self._transport.writelines((head, body))
        try:
            return await waiter
        finally:
            self._waiter = None
            if waiter.cancelled():
                self.close()

    def close(self) -> None:
        """At once, whatever is under way."""
        self.is_open = False
        self._transport.abort()

    # The transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one, without being its subclass
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():  # nobody has asked for it: it would be taken for the next answer
            self.close()
            return
        self._bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._wrong = self._wrong or f"what came is no HTTP: {error}"
        if waiter.done():
            if self._wrong is not None:  # behind the answer
                self.close()
        elif self._wrong is not None:
            self._fail(self._wrong)
        elif not self._is_in_body and self._bytes > MOST_HEAD_BYTES:
            self._fail("the headers of the answer do not end")
        elif self._body_bytes > MOST_BODY_BYTES or self._bytes > _MOST_BYTES:
            self._finish(keeps_alive=False)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self._is_in_body and not self._is_framed and exc is None:
            self._finish(keeps_alive=False)  # the end of the connection is the end of the body
            return
        how = "closed" if exc is None else _how_lost(exc)
        when = "before the answer was whole" if self._bytes else "without an answer"
        self._fail(f"the connection was {how} {when}")

    # The parser.

    def on_message_begin(self) -> None:
        if self._waiter is None or self._waiter.done():
            self._wrong = "more than one answer came"

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > MOST_HEAD_BYTES:
            self._wrong = "the headers of the answer are too long"
            return
        if self._is_in_body:  # a trailer
            return
        match name.lower():
            case b"content-length":
                self._is_framed = True
            case b"transfer-encoding":
                self._is_framed = True
                if value.strip().lower() != b"chunked":
                    self._wrong = "the answer has a transfer encoding that nobody asked for"
            case b"retry-after":
                self._retry_after = self._retry_after or value.decode("latin-1")
            case b"date":
                self._date = value.decode("latin-1")
            case b"keep-alive":
                hint = _HINT.search(value)
                self.server_keeps_s = None if hint is None else float(hint[1])

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if 200 <= status <= 599:
            self._is_in_body = True
            self._is_framed = self._is_framed or status in _BODILESS
        elif status == 101:
            self._wrong = "the endpoint switched to a protocol that nobody asked for"
        elif not 100 <= status < 200:
            self._wrong = f"the answer has the status {status}, which does not exist"
        if self._parser.get_http_version() not in ("1.1", "1.0"):
            self._wrong = f"the answer is HTTP/{self._parser.get_http_version()}"

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if len(self._start) < _KEPT_BYTES:
            self._start += body[:_KEPT_BYTES]

    def on_message_complete(self) -> None:
        if self._wrong is not None:
            return
        if not self._is_in_body:  # an interim answer
            self._retry_after, self._date, self._is_framed = None, None, False
            return
        self._finish(keeps_alive=self._parser.should_keep_alive())

    def _finish(self, *, keeps_alive: bool) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        start = shown(self._start, self._hidden)
        waiter.set_result(Answer(self._parser.get_status_code(), self._retry_after, start, self._date))
        # What of a request is not sent yet, the endpoint does not want any more.
        if not keeps_alive or self._transport.get_write_buffer_size() > 0:
            self.close()

    def _fail(self, reason: str) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(NoAnswer(reason, may_have_arrived=True))
        self.close()


def _how_lost(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"ended by TLS ({tls_reason(error)})"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return "reset"
    return f"lost ({error})"
