"""A connection beside an independent parser of HTTP: what both take they take for the same requests, and what only ours
takes is known and harmless. Two servers that read the same bytes in two ways is how requests are smuggled."""

import asyncio
import re
from contextlib import closing
from http import HTTPStatus

import h11
import pytest

from edge_service.ingest.wire.connection import Answer, Connection
from tests.support.seed import random_source, rounds


class Recording:
    """An endpoint that takes everything, and answers at once."""

    body_deadline_s = 60.0

    def __init__(self):
        self.taken = []
        self.heads = []

    def body_deadline_of(self, _request):
        return self.body_deadline_s

    def admit(self, _request):
        return None

    def most_body(self, _request):
        return 100_000

    def reserve(self, _request, _count):
        return True

    def release(self, _request, _count):
        pass

    def count(self, _request, _answer):
        pass

    def take(self, request, done):
        self.heads.append(request.headers)
        self.taken.append((request.method, request.path, request.body))
        done(Answer(HTTPStatus.OK, b"{}"))


class Wire(asyncio.Transport):
    """Keeps what is sent to it."""

    def __init__(self):
        super().__init__()
        self.sent = b""
        self.is_closed = False

    def write(self, data):
        self.sent += data

    def is_closing(self):
        return self.is_closed

    def close(self):
        self.is_closed = True

    abort = close

    def get_write_buffer_size(self):
        return 0

    def can_write_eof(self):
        return True

    def write_eof(self):
        pass

    def pause_reading(self):
        pass

    resume_reading = pause_reading


def ours(loop, pieces):
    """The requests that were taken, and the last status that was sent."""
    endpoint, wire = Recording(), Wire()
    connection = Connection(endpoint, set(), loop)
    connection.connection_made(wire)
    for piece in pieces:
        if not wire.is_closed:
            connection.data_received(piece)
    connection.connection_lost(None)
    return endpoint.taken, wire.sent


def theirs(pieces):
    """The requests that h11 takes, and what it says of the first that it refuses."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=16_384)
    found: list[tuple[str, str, bytes]] = []
    request, body = None, b""
    for piece in pieces:
        connection.receive_data(piece)
        try:
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    break
                if event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                    return found, ""
                if isinstance(event, h11.Request):
                    request, body = event, b""
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    assert request is not None
                    path = request.target.partition(b"?")[0].decode("latin-1")
                    found.append((request.method.decode("latin-1"), path, bytes(body)))
                    connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                    connection.send(h11.EndOfMessage())
                    if connection.our_state is not h11.DONE:
                        return found, ""
                    connection.start_next_cycle()
        except h11.RemoteProtocolError as error:
            return found, str(error)
    return found, ""


_HEAD = b"POST /v1/plays HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
_SEEDS = [
    _HEAD + b'Content-Length: 7\r\n\r\n{"a":1}' + _HEAD + b"Content-Length: 2\r\n\r\n{}",
    _HEAD
    + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n2\r\n1}\r\n0\r\n\r\n'
    + _HEAD
    + b"Content-Length: 0\r\n\r\n",
    _HEAD
    + b"Transfer-Encoding: chunked\r\n\r\nA;x=y\r\n0123456789\r\n0\r\nX: t\r\n\r\nGET /x?y HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    _HEAD + b"Connection: close\r\nContent-Length: 3\r\n\r\nabc" + _HEAD + b"\r\n",
    b"PUT /p HTTP/1.1\r\nHost: h\r\nAccept: */*\r\nX-Long: " + b"v" * 60 + b"\r\nContent-Length: 10\r\n\r\n0123456789",
]
_PIECES = [
    *(b"Content-Length: 5\r\n", b"Content-Length: 6, 6\r\n", b"content-length:0\r\n", b"Content-Length: +5\r\n"),
    *(b"Content-Length: 0x5\r\n", b"Content-Length: 5 \r\n", b"Content-Length : 5\r\n", b"Content-Length:\t5\r\n"),
    *(b"Content-Length: 18446744073709551617\r\n", b"Content-Length: 1_0\r\n", b"Content-Length: -1\r\n"),
    *(
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
    ),
    *(b"Transfer-Encoding: identity\r\n", b"Transfer-Encoding:\x0bchunked\r\n", b'Transfer-Encoding: "chunked"\r\n'),
    *(b"Transfer-Encoding : chunked\r\n", b"Transfer-Encoding\r\n : chunked\r\n", b"TrAnSfEr-EnCoDiNg: CHUNKED\r\n"),
    *(b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
    *(
        b"Transfer_Encoding: chunked\r\n",
        b" Transfer-Encoding: chunked\r\n",
        b"X: y\r\n folded\r\n",
        b"Host: other\r\n",
    ),
    *(
        b"X: a\0b\r\n",
        b"X: a\rb\r\n",
        b"X: a\nb\r\n",
        b"X\x00: a\r\n",
        b": a\r\n",
        b"X:\r\n",
        b"X\r\n",
        b"\r\n",
        b"\n",
        b"\r",
    ),
    *(b"\r\n0\r\n\r\n", b"5\r\nabcde\r\n", b"0000000000000000005\r\n", b"FFFFFFFFFFFFFFFFF\r\n", b"-1\r\n", b"0x5\r\n"),
    *(
        b"5 \r\n",
        b"5;\r\n",
        b'5;a="\r\n"\r\n',
        b"5\n",
        b"5;\x00\r\n",
        b" 5\r\n",
        b"GET /admin HTTP/1.1\r\nHost: h\r\n\r\n",
    ),
    *(b"Connection: upgrade\r\nUpgrade: x\r\n", b"Expect: 100-continue\r\n", b"Connection: keep-alive, close\r\n"),
    *(
        b"HTTP/1.1",
        b"HTTP/1.0",
        b"HTTP/2.0",
        b"HTTP/0.9",
        b"  ",
        b"\t",
        b"\x80",
        b"\xff",
        b"GET ",
        b"CONNECT a:1 ",
        b"/",
    ),
]


def mutated(source):
    data = bytearray(source.choice(_SEEDS))
    for _ in range(source.choice((0, 1, 1, 1, 2, 3))):
        # Mostly where a line begins, as headers and chunks do.
        lines = [at + 1 for at, byte in enumerate(data) if byte == 0x0A] or [0]
        where = source.choice(lines) if source.random() < 0.6 else source.randrange(len(data) + 1)
        match source.randrange(4):
            case 0 | 1:
                data[where:where] = source.choice(_PIECES)
            case 2:
                data[where : where + 1] = bytes([source.randrange(256)])
            case _:
                del data[where : where + source.randrange(1, 6)]
    return bytes(data)


def split(source, data):
    """In one piece, or in some."""
    cuts = sorted(source.randrange(len(data) + 1) for _ in range(source.choice((0, 0, 1, 3))))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]


_SPACED = re.compile(rb"[A-Z]+  +\S|  +HTTP/1")
_AFTER_EMPTY_LINES = re.compile(rb"[\r\n][A-Z]+ ")


def is_harmless(data, why):
    """Whether it is known why ours takes what h11 does not: no server could take it for another request."""
    if why == "":
        return b"HTTP/1.0" in data  # keep-alive in HTTP/1.0, which h11 does not have
    # RFC 9112 tells servers to ignore empty lines before a request (2.2), and allows more than one space (3).
    if why == "no request line received":
        return True
    if why.startswith("illegal request line"):
        return _AFTER_EMPTY_LINES.search(data) is not None or _SPACED.search(data) is not None
    return False


@pytest.fixture(scope="module")
def loop():
    with closing(asyncio.new_event_loop()) as loop:
        yield loop


def test_what_both_take_is_the_same_and_what_ours_alone_takes_is_harmless(loop):
    source = random_source("http")
    count = rounds(6_000, 300_000)
    both = 0
    for _ in range(count):
        data = mutated(source)
        pieces = split(source, data)
        taken, sent = ours(loop, pieces)
        found, why = theirs(pieces)
        shared = min(len(taken), len(found))
        assert taken[:shared] == found[:shared], data
        assert taken[shared:] == [] or is_harmless(data, why), (data, why)
        assert sent.count(b"HTTP/1.1 200 OK") == len(taken), data
        both += taken == found and taken != []
    assert both > count / 4


CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    "data",
    [
        _HEAD + b"Host: other\r\nContent-Length: 2\r\n\r\n{}",
        _HEAD.replace(b"Host: h\r\n", b"") + b"Content-Length: 2\r\n\r\n{}",
        _HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        _HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        CHUNKED.replace(b"1.1", b"1.0") + b"\r\n2\r\n{}\r\n0\r\n\r\n",
        b"POST /v1/plays\r\nHost: h\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: h\r\n\r\n",
        _HEAD + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
def test_what_is_ambiguous_is_refused_and_nothing_behind_it_is_taken(loop, data):
    taken, sent = ours(loop, [data + _SEEDS[0]])
    assert taken == []
    assert sent.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert sent.count(b"HTTP/1.1 400") == 1


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_an_offer_of_another_protocol_is_ignored(loop, size):
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
    data = _HEAD + offer + b'Content-Length: 7\r\n\r\n{"a":1}' + _SEEDS[1]
    taken, _ = ours(loop, [data[at : at + size] for at in range(0, len(data), size)])
    assert taken == [("POST", "/v1/plays", b'{"a":1}'), ("POST", "/v1/plays", b'{"a":1}'), ("POST", "/v1/plays", b"")]


def test_a_field_after_the_chunks_changes_nothing(loop):
    data = CHUNKED + b"\r\n2\r\n{}\r\n0\r\nContent-Type: text/plain\r\nHost: other\r\nContent-Encoding: gzip\r\n\r\n"
    endpoint = Recording()
    connection = Connection(endpoint, set(), loop)
    connection.connection_made(Wire())
    connection.data_received(data)
    connection.connection_lost(None)
    assert endpoint.heads == [{b"host": b"h", b"content-type": b"application/json", b"transfer-encoding": b"chunked"}]


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"", b"0" * 50 + b"1\r\nx\r\n"),
        (b"", b"1;x=" + b"y" * 50 + b"\r\nx\r\n"),
        (b"0\r\n", b"X: " + b"t" * 50 + b"\r\n"),
    ],
    ids=["zeros", "extensions", "fields after the chunks"],
)
def test_what_is_around_the_chunks_is_bounded_too(loop, start, piece):
    _, sent = ours(loop, [CHUNKED + b"\r\n" + start, *([piece] * 2_000)])
    assert sent.startswith(b"HTTP/1.1 4")
