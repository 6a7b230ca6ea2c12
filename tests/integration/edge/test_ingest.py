"""Events over real sockets into a real topic: what is acknowledged is in it, what is refused is not."""

import asyncio
import json
import socket
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import pytest
import uvloop

from edge_service.ingest.entry import endpoint
from edge_service.ingest.entry.committing import Writer
from edge_service.ingest.entry.endpoint import EndpointPlan, IngestEndpoint
from edge_service.ingest.wire.connection import MOST_HEAD_BYTES
from edge_service.ingest.wire.serving import Serving
from enrich.kafka.identity import EVENT_TIME
from tests.support.kafka.fatal import make_fatal
from tests.support.waiting import wait_until

PATIENCE_S = 60


class Served:
    """An endpoint on a loop of its own thread."""

    def __init__(self, plan, connection):
        self._plan, self._connection = plan, connection
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    async def _start(self):
        writer = Writer(self._connection, self._loop, self._plan.deadline_s)
        self.endpoint = IngestEndpoint(self._plan, writer, self._loop)
        self._serving = Serving(self.endpoint, self._loop)
        self.open = self._serving.open
        self.port = await self._serving.start("127.0.0.1", 0)

    def __enter__(self):
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(PATIENCE_S)
        return self

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self._serving.stop(0), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def exchange(self, data, answers=1):
        """Sends bytes as they are. Returns so many answers: status, headers and body."""
        with closing(self.connect()) as connection:
            connection.sendall(data)
            file = connection.makefile("rb")
            return [answer(file) for _ in range(answers)]

    def post(self, body, kind="application/json", bearer="t", path="/v1/plays", method="POST", **headers):
        (found,) = self.exchange(request(body, kind, bearer, path, method, **headers))
        return found


def request(body, kind="application/json", bearer="t", path="/v1/plays", method="POST", **headers):
    body = body if isinstance(body, bytes) else body.encode()
    lines = [f"{method} {path} HTTP/1.1", "host: here", f"content-type: {kind}", f"content-length: {len(body)}"]
    lines += [f"authorization: Bearer {bearer}"] if bearer else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def answer(file):
    status = file.readline()
    if not status:
        return None
    headers = {}
    while (line := file.readline().strip()) != b"":
        name, _, value = line.decode().partition(": ")
        headers[name] = value
    body = file.read(int(headers["content-length"]))
    return int(status.split()[1]), headers, json.loads(body) if body else None


@pytest.fixture
def topic(new_topic):
    return new_topic(partitions=3)


@pytest.fixture
def served(cluster, topic):
    with Served(plan_of(topic), cluster.connection) as running:
        yield running


def plan_of(topic, **changed):
    plan = {
        "path": "/v1/plays",
        "topic": topic,
        "key": ("user",),
        "event_time": ("ts",),
        "tokens": ["t", "u"],
        "most_body": 100_000,
        "most_inflated": 200_000,
        "most_events": 1000,
        "in_flight": 1 << 20,
        "body_deadline_s": 30.0,
        "deadline_s": 30.0,
    }
    return EndpointPlan(**{**plan, **changed})


def event(user, ts=1):
    return json.dumps({"user": user, "ts": ts})


def test_what_is_acknowledged_is_in_the_topic_with_its_bytes_key_and_event_time(served, cluster, topic):
    events = [event(f"u{n}", n) for n in range(50)]
    status, _, body = served.post(f"[{', '.join(events)}]", prefer="return=representation")
    assert (status, body["accepted"]) == (200, 50)
    assert served.post("\n".join(events), "application/x-ndjson; charset=utf-8")[0] == 200
    assert served.post(event("one"), bearer="u")[0] == 200
    messages = cluster.messages(topic)
    values = [message.value().decode() for message in messages]
    assert sorted(values) == sorted([*events, *events, event("one")])
    first = {f"{topic}/{message.partition()}/{message.offset()}": message for message in messages}
    for origin, sent in zip(body["origins"], events, strict=True):
        message, row = first[origin], json.loads(sent)
        assert message.value().decode() == sent
        assert message.key() == row["user"].encode()
        assert dict(message.headers()) == {EVENT_TIME: str(row["ts"]).encode()}


def test_the_time_of_a_record_is_when_its_event_came(cluster, topic, monkeypatch):
    """What ingest says of an event without a time, and what its record says, is of the same minute."""
    came_ms = time.time_ns() // 10**6 - 5_000
    monkeypatch.setattr(endpoint, "time", SimpleNamespace(time_ns=lambda: came_ms * 10**6))
    with Served(plan_of(topic, event_time=None), cluster.connection) as served:
        assert served.post(event("u"))[0] == 200
    assert [message.timestamp()[1] for message in cluster.messages(topic)] == [came_ms]


def test_a_producer_that_can_do_nothing_any_more_is_replaced(served, cluster, topic):
    for number in range(3):
        wait_until(lambda: served.post(event(f"u{number}"))[0] == 200, what="an answer")  # noqa: B023 - at once
        make_fatal(served.endpoint._writer._producer)
    assert {message.key() for message in cluster.messages(topic)} == {b"u0", b"u1", b"u2"}


def test_each_wrong_request_gets_its_status_and_writes_nothing(served, cluster, topic):
    good = event("a")
    assert served.post(good, path="/v1/other")[0] == 404
    assert served.post(good, method="PUT")[0] == 405
    assert served.post(good, bearer=None)[0] == served.post(good, bearer="x")[0] == 401
    assert served.post(good, kind="text/plain")[0] == 415
    assert served.post(good, content_encoding="compress")[0] == 415
    assert served.post("x" * 100_001)[0] == 413
    assert served.post("[" + ",".join(["{}"] * 1001) + "]")[0] == 413
    assert served.post("{")[0] == 400
    status, headers, body = served.post(f'[{good}, {{"user": 5}}, 7]')
    assert (status, headers["content-type"]) == (422, "application/problem+json")
    assert [(error["index"], error["field"]) for error in body["errors"]] == [(1, "ts"), (2, None)]
    assert cluster.messages(topic) == []


def test_a_repeated_request_with_its_key_is_written_once(served, cluster, topic):
    for _ in range(3):
        assert served.post(event("a"), idempotency_key="k1")[0] == 200
    assert served.post(event("b"), idempotency_key="k1")[0] == 422
    assert served.post(event("b"), idempotency_key="k2")[0] == 200
    assert sorted(message.key() for message in cluster.messages(topic)) == [b"a", b"b"]


def test_whole_requests_are_answered_after_the_sender_has_closed_its_side(served):
    with closing(served.connect()) as connection:
        connection.sendall(request(event("a")) * 3)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as file:
            assert [answer(file)[0] for _ in range(3)] == [200] * 3
            assert file.read() == b""


def test_requests_in_line_are_answered_in_their_order(served):
    wrong = request("{")
    line = b"".join(request(event(f"u{n}")) if n % 3 else wrong for n in range(60))
    with closing(served.connect()) as connection:
        connection.sendall(line)
        file = connection.makefile("rb")
        assert [answer(file)[0] for _ in range(60)] == [200 if n % 3 else 400 for n in range(60)]


def test_a_request_may_come_byte_by_byte_and_chunk_by_chunk(served):
    whole = request(event("a"))
    chunked = (
        b"POST /v1/plays HTTP/1.1\r\nhost: h\r\nauthorization: bearer t\r\ncontent-type: application/json\r\n"
        b"transfer-encoding: chunked\r\n\r\n5\r\n" + event("a").encode()[:5] + b"\r\n"
    )
    rest = event("a").encode()[5:]
    chunked += b"%x\r\n" % len(rest) + rest + b"\r\n0\r\n\r\n"
    for data in (whole, chunked):
        with closing(served.connect()) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in data:
                connection.send(bytes([byte]))
            assert answer(connection.makefile("rb"))[0] == 200


SMUGGLED = b"GET /admin HTTP/1.1\r\nhost: h\r\n\r\n"
HEAD = b"POST /v1/plays HTTP/1.1\r\nhost: h\r\nauthorization: Bearer t\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"content-length: 0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\n" + SMUGGLED,
        HEAD + b"content-length: +5\r\n\r\n" + SMUGGLED,
        HEAD + b"content-length: 5, 5\r\n\r\n" + SMUGGLED,
        HEAD + b"transfer-encoding: xchunked\r\n\r\n" + SMUGGLED,
        HEAD + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        HEAD + b"x: 1\r\n y: 2\r\n\r\n" + SMUGGLED,
        HEAD + b"x: a\0b\r\n\r\n" + SMUGGLED,
        HEAD + b"transfer-encoding: chunked\r\n\r\n-1\r\n\r\n" + SMUGGLED,
        b"POST /v1/plays HTTP/9.9\r\n\r\n" + SMUGGLED,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"no http at all\r\n\r\n",
    ],
)
def test_what_two_servers_would_read_in_two_ways_is_refused_and_the_connection_ends(served, data):
    with closing(served.connect()) as connection:
        connection.sendall(data)
        file = connection.makefile("rb")
        first = answer(file)
        assert first is not None
        assert first[0] in (400, 505)
        assert first[1]["connection"] == "close"
        assert file.read() == b""


def test_a_head_without_end_is_refused(served):
    with closing(served.connect()) as connection:
        connection.sendall(HEAD + b"x: " + b"y" * (MOST_HEAD_BYTES + 70_000))
        assert answer(connection.makefile("rb"))[0] == 431


def test_a_head_that_is_too_long_is_refused_also_if_it_comes_whole_in_one_piece(served):
    with closing(served.connect()) as connection:
        connection.sendall(HEAD + b"x: " + b"y" * MOST_HEAD_BYTES + b"\r\ncontent-length: 2\r\n\r\n{}")
        assert answer(connection.makefile("rb"))[0] == 431


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(served):
    with closing(served.connect()) as connection:
        connection.sendall(HEAD + b"content-length: 100001\r\nexpect: 100-continue\r\n\r\n")
        assert answer(connection.makefile("rb"))[0] == 413
    with closing(served.connect()) as connection:
        body = event("a").encode()
        connection.sendall(HEAD + b"content-length: %d\r\nexpect: 100-continue\r\n\r\n" % len(body))
        file = connection.makefile("rb")
        assert file.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert file.readline() == b"\r\n"
        connection.sendall(body)
        assert answer(file)[0] == 200


def test_slow_senders_end_at_their_deadline_and_cost_the_others_nothing(cluster, topic):
    with Served(plan_of(topic, body_deadline_s=1.0), cluster.connection) as served:
        slow = [served.connect() for _ in range(300)]
        for number, connection in enumerate(slow):
            connection.sendall(HEAD + (b"content-length: 100\r\n\r\n{" if number % 2 else b"x"))
        assert served.post(event("quick"))[0] == 200
        for connection in slow:
            with closing(connection), connection.makefile("rb") as file:
                assert answer(file)[0] == 408
        wait_until(lambda: not served.open, what="the connections' end")


def test_more_in_flight_than_allowed_is_refused_and_given_back(cluster, topic):
    with Served(plan_of(topic, in_flight=50_000), cluster.connection) as served:
        with closing(served.connect()) as holder:
            holder.sendall(HEAD + b"content-length: 45000\r\n\r\n" + b" " * 44_000)
            wait_until(lambda: served.endpoint.figures.held == 44_000)
            status, headers, _ = served.post(" " * 10_000 + event("a"))
            assert (status, headers["retry-after"]) == (429, "1")
        wait_until(lambda: served.endpoint.figures.held == 0)
        assert served.post(" " * 10_000 + event("a"))[0] == 200


def test_without_brokers_it_is_503_by_the_deadline_and_says_that_it_may_be_written(topic):
    with Served(plan_of(topic, deadline_s=1.0), {"bootstrap.servers": "127.0.0.1:1"}) as served:
        status, headers, body = served.post(event("a"))
    assert (status, headers["retry-after"]) == (503, "1")
    assert "may be written" in body["detail"]
