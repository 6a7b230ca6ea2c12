"""Senders that mean harm, over real sockets to the program: each gets its 4xx, the program stays small, and a sender
who means well does not notice."""

import gzip
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import brotli  # type: ignore[import-untyped] # it has no types
import pytest
import zstandard

from edge_service.ingest.wire.connection import MOST_HEAD_BYTES
from tests.support.edge.ingesting import running, sent, write_config
from tests.support.waiting import GUARD_S, wait_until

TOKEN = "a-token-that-nobody-else-has"  # noqa: S105 - of a server that lives for a minute
MOST_MIB = 300
DEADLINE_S = 3.0
"""For a whole request."""
HALF_GIGABYTE = 512 << 20
HEAD = (
    b"POST /v1/plays HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\nauthorization: Bearer "
    + TOKEN.encode()
    + b"\r\n"
)


class Bystander:
    """Sends one good event after the other on a connection, and notes what became of each."""

    def __init__(self, port):
        self._port = port
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.ids = []
        self.statuses = []
        self.seconds = []

    def __enter__(self):
        self._thread.start()
        wait_until(lambda: self.statuses, what="the first answer")
        return self

    def __exit__(self, *_):
        before = len(self.statuses)
        wait_until(lambda: len(self.statuses) > before, what="an answer at the end")
        self._stopping.set()
        self._thread.join(GUARD_S)

    def _run(self):
        with closing(socket.create_connection(("127.0.0.1", self._port), timeout=GUARD_S)) as connection:
            file = connection.makefile("rb")
            while not self._stopping.is_set():
                number = len(self.statuses)
                began = time.monotonic()
                connection.sendall(request(json.dumps({"id": f"good-{id(self)}-{number}"}).encode()))
                self.ids.append(f"good-{id(self)}-{number}")
                self.statuses.append(status_of(file))
                self.seconds.append(time.monotonic() - began)
                self._stopping.wait(0.005)


class Attacked:
    def __init__(self, ingest):
        self.ingest = ingest
        self.url = ingest.url("plays")
        self.port = int(self.url.rsplit(":", 1)[1].split("/")[0])

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=GUARD_S)

    def exchange(self, data):
        """The status of the answer; None if there is none."""
        with closing(self.connect()) as connection:
            with suppress(ConnectionError):  # it may be refused while it is sent
                connection.sendall(data)
            with connection.makefile("rb") as file:
                return status_of(file)

    def peak_mib(self):
        status = Path(f"/proc/{self.ingest.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def request(body, *more):
    return HEAD + b"".join(b"%b\r\n" % line for line in more) + b"content-length: %d\r\n\r\n" % len(body) + body


def status_of(file):
    """Reads a whole answer."""
    try:
        line = file.readline()
        length = 0
        while (header := file.readline().strip()) != b"":
            if header.startswith(b"content-length:"):
                length = int(header.split()[1])
        file.read(length)
    except ConnectionError:
        return None
    return int(line.split()[1]) if line else None


def ids_of(cluster, topic):
    return {json.loads(message.value())["id"] for message in cluster.messages(topic)}


@pytest.fixture(scope="module")
def topic(cluster):
    cluster.topics.create("hostile.plays", partitions=3)
    return "hostile.plays"


@pytest.fixture(scope="module")
def attacked(stack, topic, tmp_path_factory):
    with started(stack, topic, tmp_path_factory.mktemp("hostile")) as attacked:
        yield attacked


@pytest.fixture(scope="module")
def left_alone(stack, cluster, tmp_path_factory):
    """A program of the same kind that nobody attacks."""
    cluster.topics.create("peaceful.plays", partitions=3)
    with started(stack, "peaceful.plays", tmp_path_factory.mktemp("peaceful")) as left_alone:
        yield left_alone


@contextmanager
def started(stack, topic, folder):
    path = write_config(
        folder / "pipeline.yaml",
        stack.bootstrap_servers,
        f"ingest:\n  plays: {{listen: '127.0.0.1:0', path: /v1/plays, topic: {topic}, format: json, key: id, "
        f"tokens: ['{TOKEN}'], body_deadline: {DEADLINE_S:g}s, deadline: 30s}}\n",
    )
    with running(path) as ingest:
        yield Attacked(ingest)


@pytest.fixture
def unharmed(attacked, left_alone, cluster, topic):
    """Inside of it somebody sends who means well: all of it is taken, in good time, and nothing else is."""
    with Bystander(attacked.port) as bystander, Bystander(left_alone.port) as elsewhere:
        yield bystander
    assert set(bystander.statuses) == {200}
    assert set(bystander.ids) <= ids_of(cluster, topic)
    assert all(one.startswith("good-") for one in ids_of(cluster, topic))
    # What is looked for is a program that stands still. What a busy machine takes, it takes of both programs.
    assert most_of(bystander.seconds) < 1.0 + most_of(elsewhere.seconds)
    assert attacked.peak_mib() < MOST_MIB


def most_of(seconds):
    """The 95th percentile."""
    return sorted(seconds)[int(len(seconds) * 0.95)]


def bomb(coding):
    if coding == "gzip":
        return gzip.compress(bytes(HALF_GIGABYTE // 16), 9) * 16  # members one after the other
    if coding == "zstd":
        return zstandard.ZstdCompressor().compress(bytes(HALF_GIGABYTE // 16)) * 16
    compressor = brotli.Compressor(quality=5, lgwin=24)
    pieces = [compressor.process(bytes(HALF_GIGABYTE // 16)) for _ in range(16)]
    return b"".join([*pieces, compressor.finish()])


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br"])
def test_small_bodies_that_inflate_to_half_a_gigabyte(attacked, unharmed, coding):
    body = bomb(coding)
    assert len(body) < (600_000 if coding == "gzip" else 17_000)
    data = request(body, b"content-encoding: " + coding.encode())
    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(attacked.exchange, [data] * 48)) == {413}


def test_a_thousand_slow_senders(attacked, unharmed):
    slow = [attacked.connect() for _ in range(1000)]
    for number, connection in enumerate(slow):
        connection.sendall(HEAD + (b"content-length: 100\r\n\r\n{" if number % 2 else b"x: "))
    ended = 0
    for connection in slow:
        with closing(connection), connection.makefile("rb") as file:
            assert status_of(file) == 408
            ended += 1
    assert ended == 1000


def test_a_sender_that_never_stops_sending_a_byte_now_and_then(attacked, unharmed):
    """A deadline for each byte would let it go on for ever."""
    with closing(attacked.connect()) as connection:
        connection.sendall(HEAD + b"content-length: 100000\r\n\r\n")
        connection.settimeout(0.05)
        began = time.monotonic()
        answer = b""
        while not answer and time.monotonic() < began + GUARD_S:
            connection.sendall(b" ")
            with suppress(TimeoutError):
                answer = connection.recv(100)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert time.monotonic() > began + DEADLINE_S - 0.5


@pytest.mark.parametrize(
    "start", [b"x: ", b"x: y\r\n", b"cookie: a=b; "], ids=["one line", "many lines", "a long line"]
)
def test_a_head_without_end(attacked, unharmed, start):
    with closing(attacked.connect()) as connection:
        with suppress(ConnectionError):
            connection.sendall(HEAD + start * (4 * MOST_HEAD_BYTES // len(start)))
        with connection.makefile("rb") as file:
            assert status_of(file) == 431


def test_a_body_that_is_cut_at_every_byte(attacked, unharmed):
    whole = request(b'{"id": "cut"}')
    for length in range(len(whole)):
        with closing(attacked.connect()) as connection:
            connection.sendall(whole[:length])
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("rb") as file:
                assert status_of(file) is None


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"id": "bad-\xff"}', 400),
        (b'{"id": "bad-\xed\xa0\x80"}', 400),
        (b'{"id": "bad-\xc0\xaf"}', 400),
        (b'{"id": "bad", "a": ' + b"[" * 129 + b"]" * 129 + b"}", 400),
        (b"[" * 100_000, 400),
        (b'{"a":' * 100_000, 400),
        (b"[" * 1_000_000, 413),
        (b"[" + b"{}," * 300_000 + b"{}]", 413),
        (b'{"id": "bad", "id": "bad"}', 400),
        (b'{"id": "bad", "n": ' + b"9" * 100_000 + b"}", 400),
        (b'{"id": {"id": "bad"}}', 422),
        (b"x" * (1 << 20), 400),
        (b"x" * ((1 << 20) + 1), 413),
    ],
    ids=lambda value: str(value[:24]) if isinstance(value, bytes) else None,
)
def test_bodies_that_are_no_events(attacked, unharmed, body, status):
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(attacked.exchange, [request(body)] * 16)) == {status}


def test_a_million_small_events(attacked, unharmed):
    body = gzip.compress(b"[" + b"{}," * 999_999 + b"{}]")
    lines = gzip.compress(b"{}\n" * 1_000_000)
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(attacked.exchange, [request(body, b"content-encoding: gzip")] * 16)
        assert set(found) == {413}
    assert sent(attacked.url, lines, "application/x-ndjson", TOKEN, content_encoding="gzip") == 413


def test_all_that_may_be_in_flight_and_more(attacked, unharmed):
    """Two hundred senders that hold a megabyte each, and do not end: 64 MiB are held, and no more."""
    holders = [attacked.connect() for _ in range(200)]
    piece = HEAD + b"content-length: 1048576\r\n\r\n" + b" " * 1_000_000
    statuses = []
    for connection in holders:
        with suppress(ConnectionError):
            connection.sendall(piece)
    for connection in holders:
        with closing(connection), connection.makefile("rb") as file:
            statuses.append(status_of(file))
    assert set(statuses) <= {408, 429, None}
    assert 408 in statuses
    wait_until(lambda: attacked.ingest.metric("enrich_ingest_held_bytes", ingest="plays") < 1000)


def test_wrong_and_missing_tokens_are_refused_before_the_body(attacked, unharmed):
    start = b"POST /v1/plays HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n"
    tokens = [
        *(b"", b"authorization: Bearer\r\n", b"authorization: Bearer \r\n", b"authorization: Bearer x\r\n"),
        *(b"authorization: Basic " + TOKEN.encode() + b"\r\n", b"authorization: " + TOKEN.encode() + b"\r\n"),
        b"authorization: Bearer " + TOKEN.encode() + b"x\r\n",
        b"authorization: Bearer " + TOKEN[:-1].encode() + b"\r\n",
        b"authorization: Bearer " + TOKEN.encode().upper() + b"\r\n",
        b"authorization: Bearer " + TOKEN.encode() + b"\r\nauthorization: Bearer x\r\n",
        b"authorization: Bearer " + b"x" * 15_000 + b"\r\n",
    ]
    for token in tokens:
        assert attacked.exchange(start + token + b"\r\n") == 401, token  # none of its body has come


SMUGGLED = b"POST /v1/plays HTTP/1.1\r\nhost: h\r\ncontent-length: 18\r\n\r\n" + b'{"id": "smuggled"}'
SHAPES = {
    "length and chunks": HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": HEAD + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\n",
    "the same length twice": HEAD + b"content-length: 5\r\ncontent-length: 5\r\n\r\n",
    "a list of lengths": HEAD + b"content-length: 5, 5\r\n\r\n",
    "a signed length": HEAD + b"content-length: +5\r\n\r\n",
    "a length below zero": HEAD + b"content-length: -5\r\n\r\n",
    "a length in hex": HEAD + b"content-length: 0x5\r\n\r\n",
    "a length beyond 64 bits": HEAD + b"content-length: 18446744073709551621\r\n\r\n",
    "space before the colon": HEAD + b"content-length : 5\r\n\r\n",
    "another coding": HEAD + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "identity": HEAD + b"transfer-encoding: identity\r\n\r\n0\r\n\r\n",
    "two codings": HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": HEAD + b"transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "chunked and something": HEAD + b"transfer-encoding: chunked\r\ntransfer-encoding: x\r\n\r\n0\r\n\r\n",
    "a vertical tab": HEAD + b"transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a quoted coding": HEAD + b'transfer-encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "a coding on the next line": HEAD + b"transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a coding with space": HEAD + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
    "a folded line": HEAD + b"x: y\r\n content-length: 5\r\n\r\n",
    "a bare line feed": HEAD + b"x: y\ncontent-length: 5\r\n\r\n",
    "a bare carriage return": HEAD + b"x: y\rcontent-length: 5\r\n\r\n",
    "a null": HEAD + b"x: a\0b\r\n\r\n",
    "chunks in HTTP/1.0": HEAD.replace(b"1.1", b"1.0") + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk below zero": HEAD + b"transfer-encoding: chunked\r\n\r\n-1\r\n\r\n",
    "a chunk beyond 64 bits": HEAD + b"transfer-encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n",
    "a chunk in 0x": HEAD + b"transfer-encoding: chunked\r\n\r\n0x2\r\n{}\r\n0\r\n\r\n",
    "a chunk with space before": HEAD + b"transfer-encoding: chunked\r\n\r\n 2\r\n{}\r\n0\r\n\r\n",
    "a chunk that ends early": HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n",
    "a chunk by line feeds": HEAD + b"transfer-encoding: chunked\r\n\r\n2\n{}\n0\n\n",
    "an extension with a line feed": HEAD + b"transfer-encoding: chunked\r\n\r\n2;x\n{}\r\n0\r\n\r\n",
    "two hosts": HEAD + b"host: other\r\n\r\n",
    "no host": HEAD.replace(b"host: h\r\n", b"") + b"\r\n",
    "no version": b"POST /v1/plays\r\n",
    "another version": HEAD.replace(b"HTTP/1.1", b"HTTP/1.2") + b"\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a proxy's request": b"CONNECT h:80 HTTP/1.1\r\nhost: h\r\n\r\n",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_two_servers_would_read_in_two_ways_ends_the_connection(attacked, shape):
    with closing(attacked.connect()) as connection:
        connection.sendall(SHAPES[shape] + SMUGGLED.replace(b"host: h\r\n", HEAD.partition(b"\r\n")[2]))
        answers = b""
        with suppress(ConnectionError):
            while piece := connection.recv(65_536):
                answers += piece
    assert answers.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 405 ")), answers
    assert answers.count(b"HTTP/1.1 4") == 1
    assert b"HTTP/1.1 2" not in answers
    assert b"connection: close\r\n" in answers


def test_nothing_was_smuggled(attacked, cluster, topic):
    """After all of the above."""
    assert sent(attacked.url, '{"id": "good-last"}', token=TOKEN) == 200
    assert {one for one in ids_of(cluster, topic) if not one.startswith("good-")} == set()
    assert attacked.peak_mib() < MOST_MIB
