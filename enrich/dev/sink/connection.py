"""A sender's connection: HTTP/1.1, one request after the other, each answered as well or as badly as it was decided."""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

import httptools

from enrich.dev.sink.behaviour import Ending, Reaction
from enrich.dev.sink.receiver import Request

MOST_BODY = 32 << 20
_MOST_HEAD = 64 << 10
_MOST_IN_LINE = 16
_NO_LINGER = struct.pack("ii", 1, 0)
_GARBAGE = b"HTPT/7 \x00\xff yes\n\n\x16\x03\x01" + bytes(range(256))
_CHUNK = b"10000\r\n" + b"." * 0x10000 + b"\r\n"

React = Callable[[Request], Reaction]


class Open:
    """The open connections, and what they hold."""

    MOST = 4_096
    MOST_BYTES = 512 << 20

    def __init__(self) -> None:
        self.connections: set[Connection] = set()
        self.held = 0
        """Bytes of bodies that are not whole yet, or not answered."""


class Connection(asyncio.Protocol):
    def __init__(self, react: React, open_: Open, loop: asyncio.AbstractEventLoop) -> None:
        self._react = react
        self._open = open_
        self._loop = loop
        self._parser = httptools.HttpRequestParser(self)
        self._line: deque[tuple[Request, bool]] = deque()
        """Whole requests whose turn has not come, and whether the connection goes on after each."""
        self._is_busy = False
        self._is_paused = False
        self._is_endless = False
        self._is_full = False
        """Whether the transport takes no more for now."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_in_head = True
        self._head = 0
        """Bytes since the last whole head, or of what stands behind the last chunk."""
        self._begin()

    def _begin(self) -> None:
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._pieces: list[bytes] = []
        self._length = 0

    # The transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one, without being its subclass
        if len(self._open.connections) >= Open.MOST:
            self._transport.abort()
            return
        self._open.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - a callback's signature
        self._open.connections.discard(self)
        self._open.held -= self._length + sum(len(request.body) for request, _ in self._line)
        self._length = 0
        self._line.clear()
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        if self._is_in_head:  # the parser collects a header for as long as it does not end
            self._head += len(data)
        try:
            rest = memoryview(data)
            while rest:
                rest = self._feed(rest)
        except httptools.HttpParserError:
            if not self._transport.is_closing():
                self._close_with(HTTPStatus.BAD_REQUEST)
        if self._is_in_head and self._head > _MOST_HEAD and not self._transport.is_closing():
            self._close_with(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _feed(self, data: memoryview) -> memoryview:
        """Returns what has to be fed yet. Some clients offer another protocol with each request (Java's, h2c), and a
        server may ignore that. The parser takes what follows such a head for the other protocol: another one gets the
        head without the offer."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as pause:
            head = self._head_without_offer()
            self._parser = httptools.HttpRequestParser(self)
            self._parser.feed_data(head)
            return data[pause.args[0] :]
        return data[:0]

    def _head_without_offer(self) -> bytes:
        method, version = self._parser.get_method(), self._parser.get_http_version().encode()
        if method == b"CONNECT":
            raise httptools.HttpParserError("no tunnels here")
        wishes = {wish.strip().lower() for wish in self._headers.pop(b"connection", b"").split(b",")}
        ends = [b"connection: close"] if b"close" in wishes else []
        lines = [b"%b: %b" % header for header in self._headers.items() if header[0] != b"upgrade"]
        return b"\r\n".join([b"%b %b HTTP/%b" % (method, self._url, version), *lines, *ends, b"", b""])

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._flood()

    # The parser.

    def on_message_begin(self) -> None:
        self._begin()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        known = self._headers.get(name)
        self._headers[name] = value if known is None else known + b"," + value

    def on_headers_complete(self) -> None:
        self._is_in_head, self._head = False, 0
        if self._parser.should_upgrade():
            return
        if self._headers.get(b"expect", b"").lower() == b"100-continue" and not self._is_busy:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_chunk_header(self) -> None:
        # Behind the last chunk, which has no body, headers may come again.
        self._is_in_head, self._head = True, 0

    def on_body(self, piece: bytes) -> None:
        self._is_in_head = False
        if self._transport.is_closing():
            return
        self._length += len(piece)
        self._open.held += len(piece)
        self._pieces.append(piece)
        if self._length > MOST_BODY:
            self._close_with(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        elif self._open.held > Open.MOST_BYTES:
            self._close_with(HTTPStatus.SERVICE_UNAVAILABLE)

    def on_message_complete(self) -> None:
        if self._transport.is_closing() or self._parser.should_upgrade():
            return
        path = self._url.partition(b"?")[0].decode("latin-1")
        method = self._parser.get_method().decode("latin-1")
        request = Request(method, path, self._headers, b"".join(self._pieces))
        self._length, self._pieces, self._is_in_head = 0, [], True
        self._line.append((request, self._parser.should_keep_alive()))
        if not self._is_busy:
            self._next()
        elif len(self._line) >= _MOST_IN_LINE and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def end(self) -> None:
        """Without answers that are due."""
        self._transport.abort()

    # Answers.

    def _next(self) -> None:
        while self._line and not self._is_busy and not self._transport.is_closing():
            request, goes_on = self._line.popleft()
            self._open.held -= len(request.body)
            reaction = self._react(request)
            if reaction.delay_s:
                self._is_busy = True
                self._timer = self._loop.call_later(reaction.delay_s, self._answer_late, request, reaction, goes_on)
            else:
                self._answer(request, reaction, goes_on)
        if self._is_paused and len(self._line) < _MOST_IN_LINE and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    def _answer_late(self, request: Request, reaction: Reaction, goes_on: bool) -> None:
        self._is_busy = False
        if not self._transport.is_closing():
            self._answer(request, reaction, goes_on)
            self._next()

    def _answer(self, request: Request, reaction: Reaction, goes_on: bool) -> None:
        transport = self._transport
        match reaction.ending:
            case Ending.whole:
                transport.write(_whole(reaction, goes_on, request.method == "HEAD"))
                if not goes_on:
                    transport.close()
            case Ending.none:
                transport.close()
            case Ending.reset:
                self._reset()
            case Ending.truncated:
                transport.write(_head(reaction, b"content-length: 1000\r\n") + b"only the start")
                transport.close()
            case Ending.garbage:
                transport.write(_GARBAGE)
                transport.close()
            case Ending.hang:
                self._is_busy = True
            case Ending.endless:
                self._is_busy = self._is_endless = True
                transport.write(_head(reaction, b"transfer-encoding: chunked\r\n"))
                self._flood()

    def _flood(self) -> None:
        # In turns of the loop: the transport says when it takes no more.
        if self._is_endless and not self._is_full and not self._transport.is_closing():
            self._transport.write(_CHUNK)
            self._loop.call_soon(self._flood)

    def _reset(self) -> None:
        connection: socket.socket | None = self._transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._transport.abort()

    def _close_with(self, status: HTTPStatus) -> None:
        self._transport.write(_whole(Reaction(int(status)), False, False))
        self._transport.close()


_WELL = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_WITHOUT_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


def _whole(reaction: Reaction, goes_on: bool, is_head: bool) -> bytes:
    body = reaction.body
    if reaction.status == HTTPStatus.OK and goes_on and not body and not reaction.headers:
        return _WELL
    if reaction.status < HTTPStatus.OK or reaction.status in _WITHOUT_BODY:
        return _head(reaction, b"")
    more = b"content-length: %d\r\n" % len(body) + (b"" if goes_on else b"connection: close\r\n")
    return _head(reaction, more) + (b"" if is_head else body)


def _head(reaction: Reaction, more: bytes) -> bytes:
    try:
        phrase = HTTPStatus(reaction.status).phrase.encode()
    except ValueError:
        phrase = b"Nonstandard"
    return b"HTTP/1.1 %d %b\r\n%b%b\r\n" % (reaction.status, phrase, reaction.headers, more)
