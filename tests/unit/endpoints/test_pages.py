"""Rows of an HTTP endpoint, whatever it does: all of them, or an error within the time."""

import gzip
import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from enrich.base.errors import Retryable, Unreachable
from enrich.endpoints.pages import Fetcher, Known, LeftAlone, Next, PagesReader, Paging, Request
from tests.support.links.names import leading, silent
from tests.support.servers.scripted_endpoint import (
    PEM,
    ScriptedEndpoint,
    Talk,
    answers,
    closes,
    hangs,
    resets,
    sends,
    sends_endlessly,
    sends_slowly,
    server_tls,
    whole,
)

ROWS = [{"id": number, "plan": f"p{number}"} for number in range(25)]
HEAD = b"HTTP/1.1 200 OK\r\n"


def body(content: Any) -> bytes:
    return json.dumps(content).encode()


def read(endpoint: ScriptedEndpoint, paging: Paging = Paging(), known: Known = Known(), **request: Any) -> list[Any]:  # noqa: B008 - never changed
    reader = PagesReader(endpoint.url(path="/items?a=b"), paging, Request(**request), where="source s")
    try:
        pages = reader.read(known)
        return [] if pages is None else [json.loads(row) for page in pages.rows for row in page]
    finally:
        reader.close()


def paged(kind: Next, *, size: int = 10, pointer: str = "/more/next") -> "Any":
    """A step that serves ROWS in pages."""

    def step(talk: Talk) -> bool:
        talk.read()
        query = parse_qs(urlsplit(talk.request.line.split()[1]).query)
        assert query["a"] == ["b"]
        if kind is Next.page:
            start = (int(query.get("page", ["1"])[0]) - 1) * size
        else:
            start = int(query.get("offset", query.get("at", ["0"]))[0])
        rows, following = ROWS[start : start + size], start + size
        content: Any = {"items": rows}
        headers: list[tuple[str, str]] = []
        if kind is Next.pointer and following < len(ROWS):
            content["more"] = {"next": f"/items?a=b&at={following}" if pointer == "/more/next" else following}
        if kind is Next.link and following < len(ROWS):
            headers = [("link", f'</first>; rel=first, <items?a=b&at={following}>; title="x"; rel="prev next"')]
        talk.send(whole(200, body(content), headers))
        return True

    return step


@pytest.mark.parametrize("kind", [Next.page, Next.offset, Next.link, Next.pointer])
def test_all_pages_in_their_order_on_one_connection(kind: Next) -> None:
    with ScriptedEndpoint(paged(kind)) as endpoint:
        assert read(endpoint, Paging("/items", kind, "/more/next")) == ROWS
        assert endpoint.connections == 1


def test_the_next_page_may_be_a_word_that_is_sent_back() -> None:
    with ScriptedEndpoint(paged(Next.pointer, pointer="word")) as endpoint:
        assert read(endpoint, Paging("/items", Next.pointer, "/more/next", "at")) == ROWS


@pytest.mark.parametrize(
    ("content", "pointer"),
    [
        (body(ROWS), ""),
        (json.dumps(ROWS, indent=2).encode(), ""),
        (b"\n".join(map(body, ROWS)), ""),
        (body({"a/b": {"~": ROWS}}), "/a~1b/~0"),
    ],
)
def test_rows_in_each_form(content: bytes, pointer: str) -> None:
    with ScriptedEndpoint(answers(200, content)) as endpoint:
        assert read(endpoint, Paging(pointer)) == ROWS


def test_numbers_stay_as_they_were_written() -> None:
    with ScriptedEndpoint(answers(200, b'[{"id": 12345678901234567890.10}]')) as endpoint:
        reader = PagesReader(endpoint.url(), Paging(), Request(), where="w")
        pages = reader.read(Known())
        assert pages is not None
        assert next(pages.rows) == [b'{"id": 12345678901234567890.10}']
        reader.close()


def test_what_has_not_changed_is_not_read_again() -> None:
    def step(talk: Talk) -> bool:
        talk.read()
        is_known = talk.request.headers.get("if-none-match") == '"v1"'
        talk.send(whole(304) if is_known else whole(200, body(ROWS), [("etag", '"v1"')]))
        return True

    with ScriptedEndpoint(step) as endpoint:
        reader = PagesReader(endpoint.url(), Paging(), Request(), where="w")
        first = reader.read(Known())
        assert first is not None
        assert len(next(first.rows)) == 25
        assert reader.read(first.known) is None
        assert reader.read(Known('"v0"')) is not None
        reader.close()


def test_compressed_answers_and_what_is_sent() -> None:
    step = answers(200, gzip.compress(body(ROWS)), [("content-encoding", "gzip")])
    with ScriptedEndpoint(step) as endpoint:
        assert read(endpoint, headers={"x-api-key": "k"}) == ROWS
        sent = endpoint.requests[0].headers
        assert (sent["x-api-key"], sent["accept-encoding"]) == ("k", "gzip")


@pytest.mark.parametrize("parts", [1, 2, 25])
def test_an_answer_that_is_compressed_in_parts_is_read_to_its_end(parts: int) -> None:
    """What is not read would be taken for rows that are gone."""
    lines = [body(row) + b"\n" for row in ROWS]
    size = -(-len(lines) // parts)
    members = [gzip.compress(b"".join(lines[at : at + size])) for at in range(0, len(lines), size)]
    with ScriptedEndpoint(answers(200, b"".join(members), [("content-encoding", "gzip")])) as endpoint:
        assert read(endpoint) == ROWS


def test_it_comes_again_when_it_is_asked_to() -> None:
    with ScriptedEndpoint(answers(429, headers=[("retry-after", "1")]), answers(200, body(ROWS))) as endpoint:
        began = time.monotonic()
        assert read(endpoint) == ROWS
        assert time.monotonic() - began >= 1


def test_who_says_at_once_again_and_again_is_asked_less_and_less() -> None:
    """As one does whose Retry-After is a time that has passed."""
    away = answers(503, headers=[("retry-after", "0")])
    with ScriptedEndpoint(away, away, answers(200, body(ROWS))) as endpoint:
        began = time.monotonic()
        assert read(endpoint) == ROWS
        assert time.monotonic() - began >= 3


BOMB = gzip.compress(b"[" + b" " * 10_000_000 + b"]")
BROKEN: Sequence[tuple[Any, str]] = [
    (answers(404), "answers 404"),
    (answers(401), "check token and headers"),
    (answers(302, headers=[("location", "http://elsewhere.example/")]), "a redirect"),
    (answers(429, headers=[("retry-after", "86400")]), "wants to be left alone"),
    (answers(200, b'[{"id": 1}'), "no JSON"),
    (answers(200, b"<html>"), "no JSON"),
    (answers(200, b"[" * 100_000), "no JSON"),
    (sends(HEAD + b'content-length: 100\r\n\r\n[{"id": 1}'), "breaks off"),
    (sends(HEAD + b'transfer-encoding: chunked\r\n\r\n5\r\n[{"i'), "breaks off"),
    (answers(200, gzip.compress(body(ROWS))[:-9], [("content-encoding", "gzip")]), "breaks off"),
    (answers(200, gzip.compress(body(ROWS)) + gzip.compress(b" ")[:-1], [("content-encoding", "gzip")]), "breaks off"),
    (answers(200, gzip.compress(body(ROWS)) + b"more", [("content-encoding", "gzip")]), "does not answer"),
    (answers(200, b"no gzip", [("content-encoding", "gzip")]), "does not answer"),
    (answers(200, BOMB, [("content-encoding", "gzip")]), "larger than"),
    (answers(200, gzip.compress(b"") + BOMB, [("content-encoding", "gzip")]), "larger than"),
    (answers(200, b"x", [("content-encoding", "br")]), "compressed with br"),
    (closes, "hung up"),
    (resets, "hung up"),
    (hangs, "no whole answer within"),
    (sends_slowly([HEAD + b"content-length: 100\r\n\r\n", *[b" "] * 50], 0.1), "no whole answer within"),
    (sends_slowly([HEAD + b"connection: close\r\n\r\n", *[b" "] * 300], 0.1), "no whole answer within"),
    (sends_endlessly(HEAD, b"x-more: 1\r\n", 0.01), ""),
    (sends(b"SSH-2.0-something\r\n"), "does not answer"),
]


@pytest.mark.parametrize(("step", "says"), BROKEN)
def test_no_half_answer_is_taken_for_a_whole_one(step: Any, says: str) -> None:
    with ScriptedEndpoint(step) as endpoint:
        began = time.monotonic()
        with pytest.raises((Retryable, Unreachable)) as raised:
            read(endpoint, timeout_s=1.0, largest=1_000_000)
        error = raised.value
        assert says in f"{error.what} {error.next_step}", error
        assert error.where == "source s"
        assert time.monotonic() - began < 30


def test_when_to_come_again_is_by_the_clock_of_the_endpoint() -> None:
    """By one that is hours ahead it would be at once."""
    headers = [("date", "Tue, 24 Nov 2020 03:00:00 GMT"), ("retry-after", "Tue, 24 Nov 2020 03:10:00 GMT")]
    with ScriptedEndpoint(answers(503, headers=headers)) as endpoint, pytest.raises(LeftAlone) as raised:
        Fetcher(Request(tries=1), "source s", lambda: False).get(endpoint.url(), Known())
    assert raised.value.wait_s == 600


@pytest.mark.parametrize("ends", [closes, resets])
def test_an_endpoint_that_hangs_up_on_a_kept_connection_and_on_a_fresh_one_is_asked_again_later(ends: Any) -> None:
    """As one does that is just started again behind a balancer."""
    first = answers(200, body([ROWS[0]]))
    with ScriptedEndpoint(first, ends, ends, first) as endpoint:
        reader = PagesReader(endpoint.url(), Paging(), Request(), where="source s")
        assert reader.read(Known()) is not None
        with pytest.raises(Unreachable, match="hung up"):
            reader.read(Known())
        assert reader.read(Known()) is not None
        reader.close()


def test_a_next_page_on_another_host_gets_no_token() -> None:
    with ScriptedEndpoint() as other, ScriptedEndpoint(answers(200, body({"items": ROWS, "next": "http://e/"}))) as own:
        with pytest.raises(Retryable, match="another host"):
            read(own, Paging("/items", Next.pointer, "/next"), headers={"authorization": "Bearer t"})
        assert not other.requests


@pytest.mark.parametrize("address", ["http://[", "//[::1", "http://[x]/items"])
def test_a_next_page_at_what_is_no_address_is_an_error(address: str) -> None:
    step = answers(200, body([{"id": 1}]), [("link", f"<{address}>; rel=next")])
    with ScriptedEndpoint(step) as endpoint, pytest.raises(Retryable, match="next page"):
        read(endpoint, Paging(next=Next.link))


def test_a_next_page_whose_address_is_not_escaped_is_asked_for() -> None:
    first = answers(200, body({"items": ROWS[:1], "next": "/items?name=J\u00f6rg R&at=%20"}))
    with ScriptedEndpoint(first, answers(200, body({"items": ROWS[1:]}))) as endpoint:
        assert read(endpoint, Paging("/items", Next.pointer, "/next")) == ROWS
        assert endpoint.requests[1].line.split()[1] == "/items?name=J%C3%B6rg%20R&at=%20"


@pytest.mark.parametrize("character", ["\u00f6", "\u00c3\u00b6"], ids=["latin-1", "utf-8"])
def test_a_header_that_is_not_escaped_names_the_page_in_the_bytes_of_the_endpoint(character: str) -> None:
    """Else another page would be asked for, which may have no rows: those of the right one would be deleted."""
    first = answers(200, body(ROWS[:1]), [("link", f'</items?name=J{character}rg R&at=%20>; rel="next"')])
    with ScriptedEndpoint(first, answers(200, body(ROWS[1:]))) as endpoint:
        assert read(endpoint, Paging(next=Next.link)) == ROWS
        escaped = "".join(f"%{byte:02X}" for byte in character.encode("latin-1"))
        assert endpoint.requests[1].line.split()[1] == f"/items?name=J{escaped}rg%20R&at=%20"


@pytest.mark.parametrize(
    "other", ["crossorigin", "data-of=x", r'title="the \"next\" one"', "hreflang=de; title*=UTF-8''x"]
)
def test_what_else_a_link_has_does_not_hide_that_it_is_the_next_page(other: str) -> None:
    first = answers(
        200, body(ROWS[:1]), [("link", f"</items?at=0>; {other}; rel=prev, </items?at=1>; {other}; rel=next")]
    )
    with ScriptedEndpoint(first, answers(200, body(ROWS[1:]))) as endpoint:
        assert read(endpoint, Paging(next=Next.link)) == ROWS
        assert endpoint.requests[1].line.split()[1] == "/items?at=1"


def test_the_next_page_may_be_in_another_header_of_links_than_the_first() -> None:
    links = [("link", "</style.css>; rel=preload"), ("link", '</items?at=1>; rel="next"')]
    with ScriptedEndpoint(answers(200, body(ROWS[:1]), links), answers(200, body(ROWS[1:]))) as endpoint:
        assert read(endpoint, Paging(next=Next.link)) == ROWS


@pytest.mark.parametrize("header", ["<" * 60_000, '<a>;rel="' + ("\r\n" + " ;a= next" * 6_000) * 4])
def test_a_header_of_links_that_is_none_holds_nobody_up(header: str) -> None:
    """While a pattern looks for its links no other route goes on."""
    with ScriptedEndpoint(answers(200, body(ROWS), [("link", header)])) as endpoint:
        began = time.monotonic()
        assert read(endpoint, Paging(next=Next.link)) == ROWS
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("content", [b'{"next": "\xe9", "items": []}', b'{"\xe9": 1, "items": []}'])
def test_an_answer_that_is_not_utf_8_is_an_error(content: bytes) -> None:
    paging = Paging("/items", Next.pointer, "/next")
    with ScriptedEndpoint(answers(200, content)) as endpoint, pytest.raises(Retryable, match="the answer is no JSON"):
        read(endpoint, paging)


def test_pages_in_a_circle_end() -> None:
    step = answers(200, body({"items": ROWS, "next": "/items?a=b"}))
    with ScriptedEndpoint(step) as endpoint, pytest.raises(Retryable, match="read already"):
        read(endpoint, Paging("/items", Next.pointer, "/next"))


def test_a_next_page_on_the_same_host_may_have_it_written_otherwise() -> None:
    following = [
        body({"next": address, "items": ROWS}) for address in ("HTTP://API.example:80/b", "http://api.example/c")
    ]
    steps = [*[answers(200, each) for each in following], answers(200, body({"items": ROWS}))]
    with ScriptedEndpoint(*steps) as endpoint, leading(("127.0.0.1", endpoint.port)):
        paging = Paging("/items", Next.pointer, "/next")
        reader = PagesReader("http://api.EXAMPLE/a", paging, Request(), where="w")
        pages = reader.read(Known())
        assert pages is not None and sum(map(len, pages.rows)) == 3 * len(ROWS)
        reader.close()
    assert [request.line.split()[1] for request in endpoint.requests] == ["/a", "/b", "/c"]


def test_an_ipv6_address_without_a_port_is_asked_at_the_port_of_its_scheme() -> None:
    with ScriptedEndpoint(answers(200, body(ROWS))) as endpoint, leading(("127.0.0.1", endpoint.port)) as asked:
        reader = PagesReader("http://[fd00::2]/items", Paging(), Request(), where="w")
        assert reader.read(Known()) is not None
        reader.close()
    assert asked == [("fd00::2", 80)]
    assert endpoint.requests[0].headers["host"] == "[fd00::2]"


def test_of_a_name_whose_first_addresses_are_silent_the_next_one_is_read() -> None:
    step = answers(200, body(ROWS))
    with ScriptedEndpoint(step) as endpoint, silent() as place, leading(place, place, ("127.0.0.1", endpoint.port)):
        assert read(endpoint, timeout_s=2.0) == ROWS


@contextmanager
def speechless() -> Iterator[tuple[str, int]]:
    """It takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


@pytest.mark.parametrize(("scheme", "endpoint"), [("http", silent), ("https", silent), ("https", speechless)])
def test_a_stop_ends_an_attempt_to_connect_at_once(scheme: str, endpoint: Any) -> None:
    asked = itertools.count()
    with endpoint() as place, leading(place):
        stopping = lambda: next(asked) > 0  # noqa: E731 - it has only just begun
        url = f"{scheme}://hook.example/"
        reader = PagesReader(url, Paging(), Request(timeout_s=100), where="w", stopping=stopping)
        began = time.monotonic()
        with pytest.raises(Retryable, match="stopping"):
            reader.read(Known())
        assert time.monotonic() - began < 30


@pytest.mark.parametrize("late", [whole(200, b'{"id": "late"}'), whole(408)])
def test_what_comes_when_nobody_has_asked_is_not_taken_for_the_next_answer(late: bytes) -> None:
    """It would be the row of another key. Proxies say 408 to a connection that is idle."""
    sent = threading.Event()

    def step(talk: Talk) -> bool:
        talk.read()
        talk.send(whole(200, body({"id": talk.request.line.split()[1]})))
        if not sent.is_set():
            time.sleep(0.1)  # behind the answer, and not in one piece with it
            talk.send(late)
            sent.set()
        return True

    with ScriptedEndpoint(step) as endpoint:
        fetcher = Fetcher(Request(), "w", lambda: False)
        for path in ("/a", "/b", "/c"):
            fetched = fetcher.get(endpoint.url(path=path), Known())
            assert fetched is not None and json.loads(fetched.body) == {"id": path}
            sent.wait(60)
        fetcher.close()
        assert endpoint.connections == 2


def test_what_was_decrypted_with_an_answer_is_not_taken_for_the_next_one() -> None:
    """The answer ends with a buffer of the reader, and what follows it is in the same record of TLS."""

    def step(talk: Talk) -> bool:
        talk.read()
        row = {"id": talk.request.line.split()[1], "more": ""}
        row["more"] = "x" * (8192 - len(whole(200, body(row))) - 2)  # two digits more in the length
        answer = whole(200, body(row))
        assert len(answer) == 8192
        talk.send(answer + whole(200, body({"id": "late"})))
        return True

    with ScriptedEndpoint(step, tls=server_tls("issued-local")) as endpoint:
        fetcher = Fetcher(Request(ca_file=str(PEM / "authority.pem")), "w", lambda: False)
        for path in ("/a", "/b"):
            fetched = fetcher.get(endpoint.url("localhost", path), Known())
            assert fetched is not None
            assert json.loads(fetched.body)["id"] == path
        fetcher.close()
        assert endpoint.connections == 2


@pytest.mark.parametrize(("used_after_s", "connections"), [([50, 50], 1), ([61], 2), ([50] * 7, 2)])
def test_a_connection_that_was_idle_for_long_or_is_old_is_not_used_again(
    used_after_s: Sequence[int], connections: int
) -> None:
    now_s = 0.0
    with ScriptedEndpoint(answers(200, body(ROWS))) as endpoint:
        fetcher = Fetcher(Request(), "w", lambda: False, lambda: now_s)
        fetcher.get(endpoint.url(), Known())
        for seconds in used_after_s:
            now_s += seconds
            fetcher.get(endpoint.url(), Known())
        fetcher.close()
        assert endpoint.connections == connections


def test_certificates_are_checked() -> None:
    with ScriptedEndpoint(answers(200, body(ROWS)), tls=server_tls("issued-local")) as endpoint:
        assert read(endpoint, ca_file=str(PEM / "authority.pem")) == ROWS
        reader = PagesReader(
            endpoint.url("localhost."), Paging(), Request(ca_file=str(PEM / "authority.pem")), where="w"
        )
        assert reader.read(Known()) is not None
        reader.close()
        with pytest.raises(Unreachable, match="TLS fails: unable to get local issuer certificate"):
            read(endpoint)


@pytest.mark.parametrize(("certificate", "why"), [("issued-expired", "has expired"), ("issued-other", "mismatch")])
def test_what_is_wrong_with_a_certificate_is_said(certificate: str, why: str) -> None:
    tls = server_tls(certificate)
    with ScriptedEndpoint(answers(200, body(ROWS)), tls=tls) as endpoint, pytest.raises(Unreachable, match=why):
        read(endpoint, ca_file=str(PEM / "authority.pem"))


def test_a_stop_ends_a_reading_at_once() -> None:
    with ScriptedEndpoint(hangs) as endpoint:
        reader = PagesReader(endpoint.url(), Paging(), Request(timeout_s=100), where="w", stopping=lambda: True)
        began = time.monotonic()
        with pytest.raises(Retryable, match="stopping"):
            reader.read(Known())
        assert time.monotonic() - began < 30
