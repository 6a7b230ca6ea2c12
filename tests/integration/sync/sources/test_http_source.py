"""An HTTP endpoint becomes a topic. Its pages change while they are read, it answers half, and it hangs."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from enrich.service.routes import RouteState
from tests.support.servers.scripted_endpoint import ScriptedEndpoint, Talk, whole
from tests.support.sync.sources import SourceWorld, is_held, repeats
from tests.support.waiting import wait_until

COLUMNS = "id bigint, plan string, price decimal(20, 2)"


class Items:
    """Serves rows in pages by offset, and can hide some of them once."""

    def __init__(self, size: int | None = None) -> None:
        self.rows: dict[int, str] = {}
        self.size = size
        self.hidden: list[set[int]] = []
        """Of each further reading the rows that it does not show."""
        self.shift = False
        """Whether a row comes in before each next page, so that the last row of a page comes again."""
        self.answer: bytes | None = None
        self.readings = 0
        self.unchanged = 0
        self._now: set[int] = set()

    def __call__(self, talk: Talk) -> bool:
        talk.read()
        offset = int(parse_qs(urlsplit(talk.request.line.split()[1]).query).get("offset", ["0"])[0])
        if offset == 0:
            self.readings += 1
            self._now = self.hidden.pop(0) if self.hidden else set()
        if self.answer is not None:
            talk.send(self.answer)
            return True
        shown = [self.row(number) for number in sorted(self.rows) if number not in self._now]
        etag = str(hash(str(shown)))
        if self.size is None and talk.request.headers.get("if-none-match") == etag:
            self.unchanged += 1
            talk.send(whole(304))
            return True
        start = max(0, offset - 1) if self.shift else offset
        page = shown if self.size is None else shown[start : start + self.size]
        talk.send(whole(200, json.dumps({"data": page}).encode(), [("etag", etag)]))
        return True

    def row(self, number: int) -> dict[str, Any]:
        return {"id": number, "plan": self.rows[number], "price": "1.50", "other": [1]}


def expected(rows: dict[int, str]) -> dict[bytes, bytes]:
    return {str(key).encode(): f'{{"id":{key},"plan":"{plan}","price":1.50}}'.encode() for key, plan in rows.items()}


@pytest.fixture(params=[None, 7])
def items(request: pytest.FixtureRequest, source: SourceWorld) -> Iterator[Items]:
    found = Items(request.param)
    with ScriptedEndpoint(found) as endpoint:
        paging = {} if found.size is None else {"next": "offset"}
        http = {"url": endpoint.url(path="/items"), "key": ["id"], "columns": COLUMNS, "rows": "/data", **paging}
        source.origin = {"http": {**http, "timeout": "2s"}}
        source.make_topic()
        yield found


def test_the_topic_becomes_what_the_endpoint_has_and_follows_it(source: SourceWorld, items: Items) -> None:
    items.rows = {number: f"plan {number}" for number in range(100)}
    with source.running():
        wait_until(lambda: source.in_topic() == expected(items.rows), what="the rows")
        items.rows = {**{key: plan for key, plan in items.rows.items() if key >= 5}, 50: "new", 200: "more"}
        wait_until(lambda: source.in_topic() == expected(items.rows), what="the changes")
    assert source.records() == 100 + 5 + 2
    assert repeats(source.versions()) == []
    if items.size is None:
        assert items.unchanged


def test_a_row_that_one_reading_does_not_show_is_not_deleted(source: SourceWorld, items: Items) -> None:
    """It has moved from a page to one that was read before, or a cache was behind."""
    items.rows = dict.fromkeys(range(60), "p")
    with source.running():
        wait_until(lambda: source.in_topic() == expected(items.rows), what="the rows")
        items.hidden = [{3}, set(), {4, 5}, set(), {3}]
        wait_until(lambda: not items.hidden, what="the readings")
        now = items.readings + 2
        wait_until(lambda: items.readings >= now, what="further readings")
    assert source.records() == 60, "nothing was deleted, and nothing written again"
    # What two readings do not show is gone.
    with source.running():
        del items.rows[7]
        wait_until(lambda: source.in_topic() == expected(items.rows), what="the deletion")
    assert source.records() == 61


@pytest.mark.parametrize("items", [7], indirect=True)
def test_a_row_that_comes_on_two_pages_is_one(source: SourceWorld, items: Items) -> None:
    items.rows, items.shift = dict.fromkeys(range(60), "p"), True
    with source.running():
        wait_until(lambda: source.in_topic() == expected(items.rows), what="the rows")
    assert source.records() == 60


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (whole(503, headers=[("retry-after", "3600")]), "answers 503"),
        (whole(200, b'{"data": [{"id": 1}'), "no JSON"),
        (whole(200, b'{"data": [{"id": "one"}]}'), "row 1 cannot be read"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{", "no whole answer"),
    ],
)
def test_an_answer_that_is_none_changes_nothing(source: SourceWorld, items: Items, answer: bytes, says: str) -> None:
    items.rows = dict.fromkeys(range(60), "p")
    with source.running() as service:
        wait_until(lambda: source.in_topic() == expected(items.rows), what="the rows")
        items.answer = answer
        wait_until(lambda: service.status("in").state is RouteState.waiting, what="trouble")
        assert says in str(service.status("in").last_error)
        items.rows[99], items.answer = "new", None
        wait_until(lambda: source.in_topic() == expected(items.rows), what="the rows after it")
    assert source.records() == 61


def test_an_empty_answer_asks_a_person(source: SourceWorld, items: Items) -> None:
    from sync_service.sources import command

    items.rows = dict.fromkeys(range(60), "p")
    with source.running() as service:
        wait_until(lambda: source.in_topic() == expected(items.rows), what="the rows")
        items.rows = {1: "p"}
        wait_until(lambda: is_held(service), what="the held source")
        assert len(source.in_topic()) == 60
        # The first reading may have begun with a page of before.
        wait_until(lambda: command.asked(source.pipeline(), "in").missing == 59, what="the whole question")
        command.allow(source.pipeline(), "in")
        wait_until(lambda: source.in_topic() == expected(items.rows), what="what was confirmed")


def test_what_is_configured_otherwise_is_asked_though_the_endpoint_says_nothing_has_changed(
    source: SourceWorld,
) -> None:
    def two_lists(talk: Talk) -> bool:
        talk.read()
        if "if-none-match" in talk.request.headers:
            talk.send(whole(304))
        else:
            talk.send(whole(200, b'{"plans": [{"id": 1}], "others": [{"id": 1}, {"id": 2}]}', [("etag", "one")]))
        return True

    source.make_topic()
    with ScriptedEndpoint(two_lists) as endpoint:
        source.origin = {"http": {"url": endpoint.url(), "rows": "/plans", "key": ["id"], "columns": "id bigint"}}
        source.run_once()
        source.origin["http"]["rows"] = "/others"
        with source.running():
            wait_until(lambda: b"2" in source.in_topic(), what="the row of the other list")


def test_an_endpoint_that_wants_to_be_left_alone_for_long_is_read_to_its_end(source: SourceWorld) -> None:
    """For longer than a member of a group may be silent: the reading would begin again, and again."""
    pages = {"0": b'{"data": [{"id": 1}]}', "1": b'{"data": [{"id": 2}]}', "2": b'{"data": []}'}
    asked: list[str] = []

    def limited(talk: Talk) -> bool:
        talk.read()
        offset = parse_qs(urlsplit(talk.request.line.split()[1]).query).get("offset", ["0"])[0]
        asked.append(offset)
        wants_rest = asked == ["0", "1"]
        talk.send(whole(429, headers=[("retry-after", "14")]) if wants_rest else whole(200, pages[offset]))
        return not wants_rest

    source.make_topic()
    source.client = {"session.timeout.ms": 6_000, "max.poll.interval.ms": 9_000, "heartbeat.interval.ms": 1_000}
    with ScriptedEndpoint(limited) as endpoint:
        http = {"url": endpoint.url(), "rows": "/data", "next": "offset", "key": ["id"], "columns": "id bigint"}
        source.origin = {"http": {**http, "timeout": "2s"}}  # two of these are no longer than it may be silent
        status = source.run_once()
    assert asked == ["0", "1", "1", "2"]
    assert status.last_error is None


def test_an_answer_may_take_longer_than_a_member_of_a_group_may_be_silent(source: SourceWorld) -> None:
    readings: list[str] = []

    def slow(talk: Talk) -> bool:
        talk.read()
        readings.append(talk.request.line)
        talk.ended.wait(12)
        talk.send(whole(200, b'[{"id": 1}]'))
        return True

    source.make_topic()
    source.client = {"session.timeout.ms": 6_000, "max.poll.interval.ms": 7_000, "heartbeat.interval.ms": 1_000}
    with ScriptedEndpoint(slow) as endpoint:
        source.origin = {"http": {"url": endpoint.url(), "key": ["id"], "columns": "id bigint", "timeout": "40s"}}
        status = source.run_once()
    assert len(readings) == 1
    assert status.last_error is None
