"""Whatever an endpoint does instead of answering is known for what it is, within bounds of time and memory."""

import socket

import pytest
import uvloop

from enrich.endpoints.http import Answer, NoAnswer
from tests.support.edge.posting import client_of, outcome, posted
from tests.support.servers.scripted_endpoint import (
    ScriptedEndpoint,
    Talk,
    answers,
    closes,
    hangs,
    resets,
    resets_before_body,
    sends_endlessly,
    sends_slowly,
    whole,
)
from tests.support.waiting import GUARD_S

BEARER = "tok-en"


OK = b"HTTP/1.1 200 OK\r\n"


LARGE = b"x" * (8 << 20)
"""More than all buffers between a sender and a receiver hold."""


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (closes, "closed without an answer"),
        (resets, "reset without an answer"),
        (resets_before_body, "reset without an answer"),
    ],
)
@pytest.mark.parametrize("body", [b"{}", LARGE], ids=["small", "large"])
def test_a_lost_answer_is_none_and_the_request_may_have_arrived(step, reason, body):
    with ScriptedEndpoint(step) as endpoint:
        (none,) = posted(endpoint, body)
    assert (none.reason, none.may_have_arrived) == (f"the connection was {reason}", True)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    "step",
    [
        hangs,
        sends_endlessly(OK, b"x", 0.05),
        sends_endlessly(OK + b"content-length: 1000000\r\n\r\n", b"x", 0.05),
        sends_endlessly(b"", whole(100), 0.05),
        sends_slowly([OK + b"content-length: 3\r\n\r\nab"], 0.0),
    ],
    ids=["nothing", "header by byte", "body by byte", "interim for ever", "last byte missing"],
)
def test_no_answer_takes_longer_than_the_timeout(step):
    with ScriptedEndpoint(step, answers()) as endpoint:
        none, after = posted(endpoint, b"1", b"2", timeout="300ms")
    assert (str(none), none.may_have_arrived) == ("no whole answer within 0.3 s", True)
    assert after.status == 200
    assert [request.connection for request in endpoint.requests] == [0, 1]


def test_an_endpoint_that_does_not_read_is_bounded_by_the_timeout():
    def step(talk: Talk):
        talk.ended.wait(GUARD_S)
        return False

    with ScriptedEndpoint(step) as endpoint:
        (none,) = posted(endpoint, LARGE, timeout="300ms")
    assert (str(none), none.may_have_arrived) == ("no whole answer within 0.3 s", True)


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (OK, b"a: b\r\n"),
        (OK + b"a: ", b"x" * 1000),
        (OK, b"x" * 1000),
        (b"HTTP/1.1 200 ", b"x" * 1000),
        (b"", whole(103, headers=[("link", "x" * 500)])),
    ],
    ids=["headers", "value", "name", "reason", "interim answers"],
)
def test_headers_without_end_are_no_answer(first, again):
    with ScriptedEndpoint(sends_endlessly(first, again)) as endpoint:
        (none,) = posted(endpoint, b"1")
    assert none.reason in ("the headers of the answer do not end", "the headers of the answer are too long")
    assert none.may_have_arrived


@pytest.mark.parametrize(
    ("first", "again", "shown"),
    [
        (OK + b"content-length: 999999999999\r\n\r\n", b"x" * 1000, "x" * 200),
        (OK + b"\r\n", b"x" * 1000, "x" * 200),
        (OK + b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n", "x" * 200),
        (OK + b"transfer-encoding: chunked\r\n\r\n1;", b"y" * 1000, ""),
    ],
    ids=["length", "to the end", "chunks", "chunk extension"],
)
def test_of_a_body_without_end_only_the_start_is_read(first, again, shown):
    with ScriptedEndpoint(sends_endlessly(first, again), answers(201)) as endpoint:
        answer, after = posted(endpoint, b"1", b"2")
    assert answer == Answer(200, None, shown)
    assert after.status == 201
    assert [request.connection for request in endpoint.requests] == [0, 1]


def test_trailers_without_end_are_no_answer():
    first = OK + b"transfer-encoding: chunked\r\n\r\n0\r\n"
    with ScriptedEndpoint(sends_endlessly(first, b"a: b\r\n")) as endpoint:
        (none,) = posted(endpoint, b"1")
    assert isinstance(none, NoAnswer)


@pytest.mark.parametrize("waits_s", [0, GUARD_S], ids=["closes", "waits"])
def test_an_answer_to_a_request_that_is_not_sent_whole_yet_counts(waits_s):
    def step(talk: Talk):
        talk.send(whole(413, b"too large"))
        talk.ended.wait(waits_s)
        return False

    with ScriptedEndpoint(step, answers()) as endpoint:
        first, second = posted(endpoint, LARGE, b"2")
    assert first == Answer(413, None, "too large")
    assert second.status == 200
    assert [request.connection for request in endpoint.requests] == [0, 1]


def test_a_refused_connection_is_no_answer_and_the_request_has_not_arrived():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        port = taken.getsockname()[1]
        url = f"http://127.0.0.1:{port}/secret?key=secret"

        async def post():
            async with client_of(url, token=BEARER) as client:
                return await outcome(client)

        none = uvloop.run(post())
    assert none.reason == f"127.0.0.1:{port}: connection refused"
    assert not none.may_have_arrived


def test_a_connection_that_is_not_made_is_bounded_by_the_timeout():
    """A full backlog: the kernel does not answer any more."""

    async def post():
        async with client_of(f"http://127.0.0.1:{port}/", timeout="300ms") as client:
            return await outcome(client)

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        full = [socket.socket() for _ in range(4)]
        try:
            for one in full:
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
            none = uvloop.run(post())
        finally:
            for one in full:
                one.close()
    assert not none.may_have_arrived
    assert "connection" in none.reason
