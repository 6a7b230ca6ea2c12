"""Connections are used again while nothing speaks against it. No request is sent twice."""

import asyncio
import socket
import threading
from concurrent.futures import Future
from contextlib import ExitStack

import pytest
import uvloop

import enrich.endpoints.http.client as client_module
from enrich.endpoints.http import Answer, NoAnswer, Place
from tests.support.edge.posting import client_of, outcome, posted, until
from tests.support.servers.scripted_endpoint import (
    ScriptedEndpoint,
    Talk,
    answers,
    hangs,
    resets_before_body,
    sends,
    whole,
)
from tests.support.waiting import GUARD_S


class Together:
    """Answers once so many requests are there."""

    def __init__(self, count):
        self._barrier = threading.Barrier(count)

    def __call__(self, talk):
        talk.read()
        self._barrier.wait(GUARD_S)
        talk.send(whole(200))
        return True


def test_a_connection_that_closes_as_the_next_request_is_sent_is_not_answered_by_a_second_try():
    """The request met the close: only whoever counts duplicates may decide to send it again."""
    with ScriptedEndpoint(answers(), resets_before_body, answers()) as endpoint:
        first, second, third = posted(endpoint, b"1", b"2", b"3")
    assert (first.status, third.status) == (200, 200)
    assert isinstance(second, NoAnswer)
    assert second.may_have_arrived
    assert [request.connection for request in endpoint.requests] == [0, 0, 1]
    assert [request.body for request in endpoint.requests if request.is_whole] == [b"1", b"3"]


def test_a_connection_that_was_closed_meanwhile_is_replaced():
    async def post():
        async with client_of(endpoint.url()) as client:
            first = await client.post(b"1", {})
            await until(lambda: client.open_connections == 0)
            return first, await client.post(b"2", {})

    with ScriptedEndpoint(sends(whole(200)), answers()) as endpoint:
        first, second = uvloop.run(post())
    assert (first.status, second.status) == (200, 200)
    assert [request.connection for request in endpoint.requests] == [0, 1]


@pytest.mark.parametrize(
    "data",
    [
        whole(200, b"ok", [("Connection", "close")]),
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        whole(200, b"ok") + b"more",
        whole(200, b"ok") + whole(500, b"another"),
        whole(200, b"ok") + b"\x00\x01",
        whole(204) + b"a body",
        whole(200, b"ok", [("Connection", "close")]) + b"more",
    ],
    ids=["close", "1.0", "trailing", "second answer", "garbage behind", "204 with body", "trailing after close"],
)
def test_after_such_an_answer_the_connection_is_not_used_again(data):
    with ScriptedEndpoint(sends(data, keeps=True), answers(200, b"new")) as endpoint:
        first, second = posted(endpoint, b"1", b"2")
    assert first.status in (200, 204)
    assert second == Answer(200, None, "new")
    assert [request.connection for request in endpoint.requests] == [0, 1]


def test_what_comes_unasked_later_is_nobodys_answer(monkeypatch):
    monkeypatch.setattr(client_module, "_IDLE_S", 2 * GUARD_S)

    def step(talk: Talk):
        talk.read()
        talk.send(whole(200))
        asked.result(GUARD_S)
        talk.send(whole(500, b"poison"))
        return True

    async def post():
        async with client_of(endpoint.url()) as client:
            first = await client.post(b"1", {})
            asked.set_result(True)
            await until(lambda: client.open_connections == 0)
            return first, await client.post(b"2", {})

    asked: Future[bool] = Future()
    with ScriptedEndpoint(step, answers(200)) as endpoint:
        assert [answer.status for answer in uvloop.run(post())] == [200, 200]


def test_requests_share_the_connections_there_are():
    together = 8

    async def post():
        async with client_of(endpoint.url(), most_connections=together) as client:
            answered = [await asyncio.gather(*[client.post(b"%d" % n, {}) for n in range(100)]) for _ in range(3)]
            assert client.open_connections <= together
            return answered

    with ScriptedEndpoint() as endpoint:
        answered = uvloop.run(post())
    assert {answer.status for answers_ in answered for answer in answers_} == {200}
    assert sorted(request.body for request in endpoint.requests) == sorted([b"%d" % n for n in range(100)] * 3)
    assert endpoint.connections <= together


def test_a_cancelled_request_takes_its_connection_with_it():
    async def post():
        async with client_of(endpoint.url()) as client:
            asking = asyncio.ensure_future(client.post(b"1", {}))
            await until(lambda: [request for request in endpoint.requests if request.is_whole])
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            return await client.post(b"2", {})

    with ScriptedEndpoint(hangs, answers(201)) as endpoint:
        assert uvloop.run(post()).status == 201
    assert [request.connection for request in endpoint.requests] == [0, 1]


def test_requests_that_are_under_way_at_the_close_are_not_answered():
    async def post():
        async with client_of(endpoint.url()) as client:
            asking = asyncio.ensure_future(outcome(client))
            await until(lambda: endpoint.requests)
            await client.close()
            return await asking, await outcome(client)

    with ScriptedEndpoint(hangs) as endpoint:
        under_way, later = uvloop.run(post())
    assert (str(under_way), under_way.may_have_arrived) == ("no whole answer before the client was closed", True)
    assert (str(later), later.may_have_arrived) == ("the client is closed", False)


@pytest.mark.parametrize("stage", ["looks up", "connects"])
def test_requests_that_have_no_connection_at_the_close_have_not_arrived(stage):
    asked = asyncio.Event()

    async def resolve(_name, _port):
        asked.set()
        if stage == "looks up":
            await asyncio.Event().wait()
        return [Place(socket.AF_INET, listener.getsockname())]

    async def post():
        async with client_of("https://hook.example/", resolve=resolve, timeout="5m") as client:
            asking = asyncio.ensure_future(outcome(client))
            await asked.wait()
            if stage == "connects":  # its handshake is not answered
                accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
                held.enter_context(accepted)
            await client.close()
            return await asking

    with ExitStack() as held, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        none = uvloop.run(post())
    assert (str(none), none.may_have_arrived) == ("no connection before the client was closed", False)


def test_a_connection_is_closed_once_it_is_idle(monkeypatch):
    async def post():
        async with client_of(endpoint.url()) as client:
            await asyncio.gather(*[client.post(b"1", {}) for _ in range(4)])
            assert client.open_connections == 4
            await until(lambda: client.open_connections == 0)

    monkeypatch.setattr(client_module, "_IDLE_S", 0.05)
    with ScriptedEndpoint(Together(4)) as endpoint:
        uvloop.run(post())


@pytest.mark.parametrize(("idle_s", "hint", "connections"), [(60, 1, 2), (60, None, 1), (0, 100, 1), (0, None, 2)])
def test_an_idle_connection_is_not_used_when_the_endpoint_may_close_it(monkeypatch, idle_s, hint, connections):
    monkeypatch.setattr(client_module, "_IDLE_S", idle_s)
    headers = [] if hint is None else [("Keep-Alive", f"timeout={hint}, max=9")]
    with ScriptedEndpoint(answers(200, headers=headers)) as endpoint:
        posted(endpoint, b"1", b"2")
    assert endpoint.connections == connections


def test_a_busy_connection_is_replaced_after_a_while(monkeypatch):
    monkeypatch.setattr(client_module, "_LONGEST_LIFE_S", 0)
    with ScriptedEndpoint() as endpoint:
        posted(endpoint, b"1", b"2")
    assert endpoint.connections == 2
