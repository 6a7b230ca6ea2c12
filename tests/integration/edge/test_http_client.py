"""The client of expel hands over every answer as it is, and takes nothing for an answer that is none."""

import re

import pytest
import uvloop

from enrich.base.errors import ConfigError
from enrich.config.sections.edges.expel import HttpEndpoint
from enrich.endpoints.http import Answer, HttpClient, NoAnswer
from tests.support.edge.posting import WHERE, client_of, outcome, posted
from tests.support.servers.scripted_endpoint import (
    ScriptedEndpoint,
    Talk,
    answers,
    sends,
    whole,
)

BEARER = "tok-en"


def test_a_request_is_what_was_asked_for():
    async def post():
        async with client_of(endpoint.url(path="/a%20b/ü?key=1&x=[2]"), token=BEARER) as client:
            return await client.post(b'{"a":1}', {"content-type": "application/json", "webhook-id": "t/0/1"})

    with ScriptedEndpoint(answers(201, b"made", [("Retry-After", "7")])) as endpoint:
        assert uvloop.run(post()) == Answer(201, "7", "made")
    (request,) = endpoint.requests
    assert request.line == "POST /a%20b/%C3%BC?key=1&x=%5B2%5D HTTP/1.1"
    assert request.body == b'{"a":1}'
    assert request.headers == {
        "host": f"127.0.0.1:{endpoint.port}",
        "user-agent": "enrich",
        "accept-encoding": "identity",
        "authorization": "Bearer tok-en",
        "content-type": "application/json",
        "webhook-id": "t/0/1",
        "content-length": "7",
    }


@pytest.mark.parametrize("first", [200, 300, 400, 500])
def test_every_status_is_an_answer_and_leaves_the_connection_usable(first):
    statuses = range(first, first + 100)
    script = [answers(status, b"why" if status not in (204, 304) else b"") for status in statuses]
    with ScriptedEndpoint(*script) as endpoint:
        outcomes = posted(endpoint, *[b"%d" % status for status in statuses])
    assert outcomes == [Answer(status, None, "" if status in (204, 304) else "why") for status in statuses]
    assert [request.body for request in endpoint.requests] == [b"%d" % status for status in statuses]
    assert endpoint.connections == 1


def test_interim_answers_are_passed_over():
    for status in range(100, 200):
        if status == 101:
            continue
        interim = whole(status, headers=[("Retry-After", "9")])
        with ScriptedEndpoint(sends(interim * 3 + whole(503, b"late"), keeps=True), answers(200)) as endpoint:
            assert posted(endpoint, b"1", b"2") == [Answer(503, None, "late"), Answer(200, None, "")]
        assert endpoint.connections == 1


@pytest.mark.parametrize(
    "value", ["soon", "-5", "1e9", "Wed, 21 Oct 2015 07:28:00 GMT", "\xff\xfe", "5, 6", "9" * 1000]
)
def test_retry_after_is_handed_over_as_it_is(value):
    with ScriptedEndpoint(answers(429, b"", [("Retry-After", value)])) as endpoint:
        assert posted(endpoint, b"1") == [Answer(429, value, "")]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status):
    with ScriptedEndpoint() as other:
        with ScriptedEndpoint(answers(status, b"", [("Location", other.url())])) as endpoint:
            assert posted(endpoint, b"1") == [Answer(status, None, "")]
        assert (len(endpoint.requests), other.connections) == (1, 0)


CHUNKED = (
    b"HTTP/1.1 422 No\r\ntransfer-encoding: chunked\r\n\r\n3\r\nbad\r\n5;x=y\r\n name\r\n0\r\nretry-after: 5\r\n\r\n"
)
LENGTH = whole(422, b"bad name")
TO_THE_END = b"HTTP/1.1 422 No\r\nserver: old\r\n\r\nbad name"


@pytest.mark.parametrize("data", [CHUNKED, LENGTH], ids=["chunked", "length"])
def test_an_answer_that_is_cut_at_any_byte_is_none(data):
    async def post():
        async with client_of(endpoint.url()) as client:
            return [await outcome(client) for _ in range(len(data) + 1)]

    with ScriptedEndpoint(*[sends(data[:length]) for length in range(len(data) + 1)]) as endpoint:
        *cut, last = uvloop.run(post())
    assert last == Answer(422, None, "bad name")
    assert [str(error) for error in cut[1:]] == ["the connection was closed before the answer was whole"] * (
        len(data) - 1
    )
    assert str(cut[0]) == "the connection was closed without an answer"
    assert all(error.may_have_arrived for error in cut)
    assert len(endpoint.requests) == len(data) + 1


@pytest.mark.parametrize("data", [CHUNKED, LENGTH, TO_THE_END], ids=["chunked", "length", "to the end"])
def test_an_answer_that_comes_byte_by_byte_is_the_same(data):
    def step(talk: Talk):
        talk.read()
        for byte in data:
            talk.send(bytes([byte]))
        return False

    with ScriptedEndpoint(step) as endpoint:
        assert posted(endpoint, b"1") == [Answer(422, None, "bad name")]


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\xff\x16\x03\x01 what?\r\n\r\n", "no HTTP"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "no HTTP"),
        (b"<html>busy</html>", "no HTTP"),
        (b"HTTP/1.1 2x0 OK\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 20 OK\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 99 OK\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 000 OK\r\ncontent-length: 0\r\n\r\n", "no HTTP|does not exist"),
        (b"HTTP/1.1 099 OK\r\ncontent-length: 0\r\n\r\n", "no HTTP|does not exist"),
        (b"HTTP/1.1 600 OK\r\ncontent-length: 0\r\n\r\n", "status 600"),
        (b"HTTP/1.1 999 OK\r\ncontent-length: 0\r\n\r\n", "status 999"),
        (b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n", "HTTP/2.0"),
        (b"HTTP/9.9 200 OK\r\ncontent-length: 0\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 101 Switching\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n" + OK + b"\r\n", "switched"),
        (OK + b"content-length: x\r\n\r\n", "no HTTP"),
        (OK + b"content-length: -1\r\n\r\n", "no HTTP"),
        (OK + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab", "no HTTP"),
        (OK + b"content-length: 99999999999999999999999\r\n\r\nab", "no HTTP"),
        (OK + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "no HTTP"),
        (OK + b"transfer-encoding: gzip\r\n\r\nab", "transfer encoding"),
        (OK + b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n", "transfer encoding"),
        (OK + b"transfer-encoding: chunked\r\n\r\nzz\r\n", "no HTTP"),
        (OK + b"transfer-encoding: chunked\r\n\r\n-1\r\n", "no HTTP"),
        (OK + b"transfer-encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n", "no HTTP"),
        (OK + b"transfer-encoding: chunked\r\n\r\nfffffffffffffffffff\r\n", "no HTTP"),
        (OK + b"no colon\r\n\r\n", "no HTTP"),
        (OK + b"na me: x\r\n\r\n", "no HTTP"),
        (OK + b"name: a\x00b\r\n\r\n", "no HTTP"),
        (OK + b"a: b\r\n folded: c\r\ncontent-length: 0\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\ncontent-length: 0\n\n", "no HTTP"),
    ],
)
def test_what_is_no_answer_is_none(data, reason):
    with ScriptedEndpoint(sends(data, keeps=True), answers(204)) as endpoint:
        none, after = posted(endpoint, b"1", b"2")
    assert isinstance(none, NoAnswer), none
    assert re.search(reason, none.reason)
    assert none.may_have_arrived
    assert after == Answer(204, None, "")
    assert [(request.body, request.connection) for request in endpoint.requests] == [(b"1", 0), (b"2", 1)]


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"a\x00b\x1b[31m\r\n\xe2\x80\xae\xff", "a b [31m   \ufffd"),
        ("ü".encode() * 300, "ü" * 200),
        (b'{"authorization": "Bearer tok-en"}', '{"authorization": "Bearer ***"}'),
        (b"x" * 195 + b"tok-en", "x" * 195 + "***"),
    ],
)
def test_the_start_of_a_body_is_fit_to_be_shown(body, shown):
    with ScriptedEndpoint(answers(400, body)) as endpoint:
        assert posted(endpoint, b"1", token=BEARER) == [Answer(400, None, shown)]


PATH, QUERY = "/hooks/T012AB34/s3cr%20et-of-acme", "?key=a%2Fb+c&x=1&y=s3cr3tvalue"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (f"Cannot POST {PATH}{QUERY}", "Cannot POST ***"),
        (f"Cannot POST {PATH}", "Cannot POST ***"),
        ("<pre>Cannot POST /hooks/T012AB34/s3cr et-of-acme</pre>", "<pre>Cannot POST ***</pre>"),
        ("no hook T012AB34 here, 1", "no hook *** here, 1"),
        ("{'key': ['a/b c'], 'x': ['1']}", "{'key': ['***'], 'x': ['1']}"),
        ("a%2fb+c and s3cr3tvalue", "*** and ***"),
        ("x" * 195 + "t012ab34", "x" * 195 + "***"),
    ],
)
def test_what_a_page_repeats_of_the_address_is_not_shown(body, shown):
    async def post():
        async with client_of(endpoint.url(path=PATH + QUERY)) as client:
            return await outcome(client)

    with ScriptedEndpoint(answers(404, body.encode())) as endpoint:
        assert uvloop.run(post()) == Answer(404, None, shown)


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "a\r\nx: y"},
        {"content-type": "a\nb"},
        {"content-type": "a\rb"},
        {"x\r\ny": "z"},
        {"a": "ü"},
        {"a": "\0"},
    ],
)
def test_a_header_that_would_be_two_is_not_sent(headers):
    with ScriptedEndpoint() as endpoint, pytest.raises(ConfigError, match="characters that no header can have"):
        posted(endpoint, b"1", headers=headers)
    assert endpoint.connections == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": "http://user:pass@host/"}, "a login in the address is not sent"),
        ({"url": "http://a,b/"}, "no name of a host"),
        ({"url": "http://" + "ü." * 100 + "/"}, "no name of a host"),
        ({"url": "http://host/", "token": "to ken"}, "the token has characters"),
        ({"url": "http://host/", "token": "to\nken"}, "the token has characters"),
    ],
)
def test_what_cannot_be_sent_is_said_at_once(settings, message):
    with pytest.raises(ConfigError, match=message) as caught:
        HttpClient(HttpEndpoint.model_validate(settings), 1, WHERE)
    assert "pass" not in str(caught.value)
    assert "ken\n" not in str(caught.value)
    assert "to ken" not in str(caught.value)
