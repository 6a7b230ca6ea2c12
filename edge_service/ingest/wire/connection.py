"""A sender's connection: HTTP/1.1 with keep-alive and pipelining, all of it bounded, each request answered in its turn.

The parser is llhttp (by `httptools`), which refuses the shapes that are used to smuggle requests. What it does not
bound is bounded here: the head of a request, its body, the time that both may take, how many requests wait in line, and
how many answers wait for a sender that does not read them.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

import httptools

from edge_service.ingest.wire.messages import Answer as Answer
from edge_service.ingest.wire.messages import Decided as Decided
from edge_service.ingest.wire.messages import Done as Done
from edge_service.ingest.wire.messages import Endpoint as Endpoint
from edge_service.ingest.wire.messages import Later as Later
from edge_service.ingest.wire.messages import Request as Request
from edge_service.ingest.wire.messages import busy as busy
from edge_service.ingest.wire.messages import head_of
from edge_service.ingest.wire.messages import problem as problem
from edge_service.ingest.wire.stalling import Stalling

MOST_HEAD_BYTES = 16_384
MOST_HEADERS = 100
_MOST_IN_LINE = 16
"""Requests of a connection that may wait for their answer; then it is not read any more."""
_PIECE_BYTES = 1 << 16
"""So much is parsed at once. What comes in one piece may be thousands of requests."""
_ONCE = frozenset((b"host", b"content-length", b"transfer-encoding"))
_MOST_FRAME = 6
"""Bytes for each byte of a body: a chunk of one takes as many."""
_READ_ON_BYTES = 1 << 20
"""So much of a refused body is still read, so that its sender gets to read the answer."""


@dataclass(slots=True, eq=False)
class _Exchange:
    """A request and its answer."""

    keeps_alive: bool = True
    request: Request | None = None
    answer: Answer | None = None
    body: bytes | bytearray = b""
    """What has come of it. One array: it may come byte by byte, and a list of such pieces takes forty times as much."""
    raw: int = 0
    """Bytes that came since its head was whole, with all that is around the chunks of a body."""
    length: int = 0
    most: int = 0
    reserved: int = 0
    began: float = 0.0
    is_undecided: bool = False
    unsaid: Answer | None = None
    """What refuses it if its admission does not."""
    is_whole: bool = False


class Connection(asyncio.Protocol):
    def __init__(
        self,
        endpoint: Endpoint,
        open_connections: set["Connection"],
        loop: asyncio.AbstractEventLoop,
        is_too_late: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_too_late`: whether a connection that is open only now is not served any more."""
        self._endpoint = endpoint
        self._open = open_connections
        self._loop = loop
        self._is_too_late = is_too_late
        self._parser = httptools.HttpRequestParser(self)
        self._line: deque[_Exchange] = deque()
        self._reading: _Exchange | None = None
        self._head_bytes = 0
        """Of a head that is not whole yet, with what came in one piece with it."""
        self._fields_bytes = 0
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._count = 0
        self._is_twofold = False
        """Whether a field of the head that says where it goes, or how long it is, is there twice."""
        self._too_large_head = False
        self._takes_no_more = False
        """Whether the last request that is answered here is in line: whatever comes after it is not looked at."""
        self._deadline: asyncio.TimerHandle | None = None
        self._is_closing = False
        self._pieces: deque[bytes | memoryview] = deque()
        """What has come, and is not parsed yet."""
        self._is_paused = False
        self._reads_soon = False
        self._is_full = False
        """Whether the sender has to read first: nothing more is written until then."""
        self._read_on = _READ_ON_BYTES

    # The transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one, without being its subclass
        self._stalling = Stalling(self._transport, self._loop)
        self._open.add(self)
        self._wait_for_request()
        if self._is_too_late():
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - a callback's signature
        self._open.discard(self)
        self._cancel_deadline()
        self._stalling.end()
        self._is_closing = True
        self._pieces.clear()
        if self._reading is not None:
            self._give_back(self._reading)
            self._reading = None
        # What was taken is answered to nobody; it gives back what it holds when it is done.

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self._read()

    def _read(self) -> None:
        """Parses what has come, and reads on, unless something has to be waited for first."""
        while self._pieces and not self._has_to_wait:
            self._parse(self._pieces.popleft())
        self._reads_soon = False
        if self._has_to_wait:
            self._pause()
        else:
            self._resume()

    @property
    def _has_to_wait(self) -> bool:
        """For the sender to read its answers, for answers, or for what is known about the sender."""
        if self._is_closing:
            return False  # what comes is dropped
        return self._is_full or len(self._line) >= _MOST_IN_LINE or any(one.is_undecided for one in self._line)

    def _go_on(self) -> None:
        """One thing less has to be waited for."""
        if self._is_paused and not self._reads_soon:
            self._reads_soon = True
            self._loop.call_soon(self._read)

    def _parse(self, data: bytes | memoryview) -> None:
        if len(data) > _PIECE_BYTES:
            data = memoryview(data)
            self._pieces.appendleft(data[_PIECE_BYTES:])
            data = data[:_PIECE_BYTES]
        if self._is_closing or (self._takes_no_more and self._reading is None):
            self._drop(len(data))
            return
        if self._is_in_head:
            self._head_bytes += len(data)
        else:
            cast("_Exchange", self._reading).raw += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as pause:
            self._go_on_without_upgrade(data[pause.args[0] :])
            return
        except httptools.HttpParserError:
            if self._takes_no_more and self._reading is None:
                return
            if not self._too_large_head:
                self._fail(HTTPStatus.BAD_REQUEST, "not HTTP/1.1")
                return
        if self._too_large_head or (self._head_bytes > MOST_HEAD_BYTES and self._is_in_head) or self._is_mostly_frame:
            self._fail(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"a head has at most {MOST_HEAD_BYTES} bytes")

    @property
    def _is_in_head(self) -> bool:
        return self._reading is None or self._reading.request is None

    @property
    def _is_mostly_frame(self) -> bool:
        """Whether sizes and extensions of chunks, and the fields after them, are more than chunks of one byte need."""
        exchange = self._reading
        return exchange is not None and exchange.raw > _MOST_FRAME * exchange.length + MOST_HEAD_BYTES

    def eof_received(self) -> bool:
        while self._pieces:
            self._parse(self._pieces.popleft())
        if self._reading is not None or not self._line:
            self._stalling.begin()
            return False  # half a request, or none: the transport closes
        self.stop()  # whole requests are answered still
        return self._transport.can_write_eof()  # with TLS the transport closes in any case

    def pause_writing(self) -> None:
        self._is_full = True
        self._stalling.begin()

    def resume_writing(self) -> None:
        self._is_full = False
        if not self._is_closing:
            self._stalling.end()
        self._send()

    def _go_on_without_upgrade(self, rest: bytes | memoryview) -> None:
        """Some clients offer another protocol with each request (Java's, h2c), and a server may ignore that. The parser
        takes what follows such a head for the other protocol: another one gets the head without the offer."""
        method, version = self._parser.get_method(), self._parser.get_http_version().encode()
        if method == b"CONNECT" or self._is_twofold or self._count != len(self._headers):
            self._fail(HTTPStatus.BAD_REQUEST, "this server speaks HTTP/1.1 only")
            return
        lines = [b"%b: %b" % header for header in self._headers.items() if header[0] not in (b"upgrade", b"connection")]
        wishes = {wish.strip().lower() for wish in self._headers.get(b"connection", b"").split(b",")}
        lines += [b"connection: close"] if b"close" in wishes else []
        self._line.pop()
        self._reading = None
        self._parser = httptools.HttpRequestParser(self)
        head = b"\r\n".join([b"%b %b HTTP/%b" % (method, self._url, version), *lines, b"", b""])
        self._pieces.extendleft(piece for piece in (rest, head) if piece)

    # The parser.

    def on_message_begin(self) -> None:
        if self._takes_no_more:
            raise ValueError("the connection ends after what is in line")
        self._reading = _Exchange(began=self._loop.time())
        self._line.append(self._reading)
        self._url, self._headers, self._count, self._fields_bytes, self._is_twofold = b"", {}, 0, 0, False
        self._wait_for_body()

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._require_small(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count += 1
        if self._count > MOST_HEADERS:
            self._too_large_head = True
            raise ValueError("too many headers")
        self._require_small(len(name) + len(value))
        if not self._is_in_head:
            return  # a field after the chunks: it must not change what was decided by the head
        name = name.lower()
        if name in _ONCE and name in self._headers:
            self._is_twofold = True
        self._headers[name] = value

    def _require_small(self, more: int) -> None:
        self._fields_bytes += more
        if self._fields_bytes > MOST_HEAD_BYTES:
            self._too_large_head = True
            raise ValueError("the head is too long")

    def on_headers_complete(self) -> None:
        exchange = self._reading
        assert exchange is not None  # noqa: S101 - the parser began a message
        self._head_bytes = 0
        if self._parser.should_upgrade():
            return
        exchange.keeps_alive = self._parser.should_keep_alive()
        path = self._url.partition(b"?")[0].decode("latin-1")
        request = Request(self._parser.get_method().decode("latin-1"), path, self._headers)
        exchange.request = request
        wrong = self._why_ambiguous()
        if wrong is not None:
            self._refuse(exchange, problem(HTTPStatus.BAD_REQUEST, wrong))
            return
        verdict = self._endpoint.admit(request)
        if verdict is None or isinstance(verdict, Answer):
            self._enter(exchange, request, verdict)
            return
        exchange.most = self._endpoint.most_body(request)
        exchange.is_undecided = True
        verdict.then(lambda refusal: self._decided(exchange, request, refusal))

    def _why_ambiguous(self) -> str | None:
        """What another server might read in another way, and the parser takes."""
        version = self._parser.get_http_version()
        coding = self._headers.get(b"transfer-encoding")
        if version not in ("1.0", "1.1"):
            return "this server speaks HTTP/1.1"
        if self._is_twofold or (version == "1.1" and b"host" not in self._headers):
            return "a request has one host field, and its length is said once"
        if coding is not None and (coding.strip().lower() != b"chunked" or version == "1.0"):
            return "the only transfer coding is chunked, in HTTP/1.1"
        return None

    def _enter(self, exchange: _Exchange, request: Request, refusal: Answer | None) -> None:
        if refusal is None:
            exchange.most = self._endpoint.most_body(request)
            announced = request.headers.get(b"content-length")
            if announced is not None and int(announced) > exchange.most:
                refusal = self._too_large(exchange.most)
        if refusal is not None:
            self._refuse(exchange, refusal)
            return
        own = self._endpoint.body_deadline_of(request)
        if own < self._endpoint.body_deadline_s and not exchange.is_whole:
            self._cancel_deadline()
            self._deadline = self._loop.call_at(exchange.began + own, self._end_slow)
        if request.headers.get(b"expect", b"").lower() == b"100-continue" and self._line[0] is exchange:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _decided(self, exchange: _Exchange, request: Request, refusal: Answer | None) -> None:
        exchange.is_undecided = False
        if self._is_closing or exchange.answer is not None:  # the sender has gone, or was too slow meanwhile
            self._give_back(exchange)
            return
        self._enter(exchange, request, refusal or exchange.unsaid)
        if exchange.is_whole and exchange.answer is None:
            self._take(exchange, request)
        self._go_on()

    def on_body(self, piece: bytes) -> None:
        exchange = self._reading
        assert exchange is not None  # noqa: S101 - the same
        exchange.length += len(piece)
        if exchange.answer is not None:  # refused
            self._drop(len(piece))
            return
        refusal = exchange.unsaid
        if exchange.length > exchange.most:
            refusal = refusal or self._too_large(exchange.most)
        elif refusal is None and not self._endpoint.reserve(cast("Request", exchange.request), len(piece)):
            refusal = busy()
        if refusal is not None and exchange.is_undecided:
            exchange.unsaid = refusal  # whether its sender is known comes first
        elif refusal is not None:
            self._refuse(exchange, refusal)
        else:
            exchange.reserved += len(piece)
            if not exchange.body:
                exchange.body = piece
                return
            if type(exchange.body) is bytes:
                exchange.body = bytearray(exchange.body)
            exchange.body += piece

    def on_message_complete(self) -> None:
        if self._parser.should_upgrade():
            return  # only its head was looked at
        exchange, self._reading = self._reading, None
        assert exchange is not None and exchange.request is not None  # noqa: S101 - the same
        self._wait_for_request()
        if exchange.answer is not None:  # refused
            return
        exchange.is_whole = True
        if not exchange.is_undecided:
            self._take(exchange, exchange.request)

    def _take(self, exchange: _Exchange, request: Request) -> None:
        request.body, exchange.body = bytes(exchange.body), b""
        self._endpoint.take(request, lambda answer: self._answered(exchange, answer))

    # Answers.

    def stop(self) -> None:
        """Takes no more requests: what is under way is answered, then the connection is closed."""
        if not self._line:
            self._close()
            return
        self._line[-1].keeps_alive = False
        self._takes_no_more = True

    def abort(self) -> None:
        """Ends at once, whatever is due."""
        self._transport.abort()

    def _answered(self, exchange: _Exchange, answer: Answer) -> None:
        self._give_back(exchange)
        self._endpoint.count(exchange.request, answer)
        exchange.answer = answer
        self._send()

    def _send(self) -> None:
        """Sends the answers whose turn it is, as long as the sender reads them."""
        while self._line and not self._is_full and not self._transport.is_closing():
            exchange = self._line[0]
            answer = exchange.answer
            if answer is None:
                break
            self._line.popleft()
            closes = answer.closes or not exchange.keeps_alive
            is_head = exchange.request is not None and exchange.request.method == "HEAD"
            self._transport.write(head_of(answer, closes) + (b"" if is_head else answer.body))
            if closes:
                self._close()
                return
        self._go_on()

    def _refuse(self, exchange: _Exchange, answer: Answer) -> None:
        """Answers before the body is read. What still comes of it is dropped, within bounds."""
        exchange.body = b""
        answer.closes = self._takes_no_more = True
        self._answered(exchange, answer)

    def _fail(self, status: HTTPStatus, what: str) -> None:
        """Nothing that comes after this can be understood."""
        exchange = self._reading
        if exchange is None:
            exchange = _Exchange()
            self._line.append(exchange)
        if exchange.answer is None:
            self._refuse(exchange, problem(status, what))
        self._reading = None

    def _give_back(self, exchange: _Exchange) -> None:
        if exchange.reserved:
            self._endpoint.release(cast("Request", exchange.request), exchange.reserved)
            exchange.reserved = 0

    def _too_large(self, most: int) -> Answer:
        return problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {most} bytes")

    def _close(self) -> None:
        """Sends what is written. Reads on for a moment: a sender that still sends would not get to see the answer."""
        self._is_closing = True
        self._cancel_deadline()
        self._stalling.begin()
        if self._reading is None or not self._transport.can_write_eof():
            self._transport.close()
            return
        self._transport.write_eof()
        self._go_on()
        self._deadline = self._loop.call_later(1.0, self._transport.close)

    def _drop(self, count: int) -> None:
        self._read_on -= count
        if self._read_on < 0:
            self._stalling.begin()
            self._transport.close()

    # Time.

    def _wait_for_request(self) -> None:
        self._cancel_deadline()
        self._deadline = self._loop.call_later(_IDLE_S, self._end_idle)

    def _wait_for_body(self) -> None:
        self._cancel_deadline()
        self._deadline = self._loop.call_later(self._endpoint.body_deadline_s, self._end_slow)

    def _end_idle(self) -> None:
        if self._line:  # it waits for answers
            self._wait_for_request()
        elif self._head_bytes:
            self._end_slow()
        else:
            self._close()

    def _end_slow(self) -> None:
        exchange = self._reading
        request = None if exchange is None else exchange.request
        allowed = self._endpoint.body_deadline_s if request is None else self._endpoint.body_deadline_of(request)
        self._fail(HTTPStatus.REQUEST_TIMEOUT, f"not whole after {allowed:g} s")

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _pause(self) -> None:
        if not self._is_paused and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()


_IDLE_S = 75.0
"""How long a connection without a request is kept. Longer than what load balancers before it keep theirs."""
