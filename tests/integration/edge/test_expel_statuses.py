"""Every status, and everything that is no answer, does with an event what the table of docs/delivery.md says."""

from collections import Counter
from collections.abc import Sequence

import pytest

from enrich.kafka.records import headers_of
from enrich.service.status import Program, exposition
from tests.support import dashboard
from tests.support.edge.expel import Endpoint, ExpelWorld, expelling
from tests.support.figures import unexplained
from tests.support.kafka.topics import Cluster
from tests.support.servers.scripted_endpoint import Step, Talk, closes, hangs, resets, sends_slowly, server_tls, whole
from tests.support.waiting import wait_until

GOOD = 1_000
"""Ids from here on are taken."""


@pytest.fixture
def world(cluster: Cluster) -> ExpelWorld:
    made = ExpelWorld(cluster, pauses=("1h", "2h"), section={"batch": {"events": 1}, "parallel": 2})
    made.make()
    return made


def among_good(ids: Sequence[int]) -> list[int]:
    """Between others that are taken: without any, the endpoint would be left alone for a while."""
    return [one for number, bad in enumerate(ids) for one in (bad, *range(GOOD + 5 * number, GOOD + 5 * number + 5))]


def wait_for_all(world: ExpelWorld, endpoint: Endpoint, ids: Sequence[int]) -> Counter[int]:
    """Until each is taken, dead, or waits for its retry. Returns those that wait, and checks that none is lost."""
    world.wait_until_all_is_committed()
    waiting = world.cluster.ids(world.retry_in("1h"))
    assert endpoint.delivered + Counter(world.dead().keys()) + waiting == Counter(ids)
    return waiting


def test_each_status_is_done_dead_or_tried_again_as_the_table_says(world: ExpelWorld) -> None:
    def decide(ids: list[int]) -> int | bytes:
        (status,) = ids
        if status >= GOOD:
            return 200
        if status < 200 and status != 101:  # announces an answer, which comes
            return whole(status) + whole(200)
        where = [("location", endpoint.url(path="/elsewhere"))] if 300 <= status < 400 else []
        return whole(status, b"" if status in (204, 304) else b"why %d" % status, where)

    again = {101, 429, *range(500, 600)}
    dead = {*range(300, 500)} - again
    with Endpoint(decide) as endpoint:
        world.url = endpoint.url()
        ids = among_good(range(100, 600))
        world.produce(ids)
        with expelling(world) as running:
            waiting = wait_for_all(world, endpoint, ids)
            assert running.count("dead_letters") == len(dead)
            page = exposition([running.status()], Program("expel", "plays", "127.0.0.1:0", "pages.expel")).decode()
            assert dashboard.shown("expel") <= dashboard.exposed(page)
            assert unexplained("expel", page) == set()
    assert waiting == Counter(again)
    assert endpoint.sent == Counter(ids) + Counter(dict.fromkeys(again, 2))
    letters = world.dead()
    assert {one: letter.reason for one, letter in letters.items()} == {
        one: "HTTP 304" if one == 304 else f"HTTP {one}: why {one}" for one in dead
    }
    place = letters[422].headers
    assert (place["enrich.stage"], place["enrich.topic"], place["enrich.key"]) == (
        b"acme",
        world.topic().encode(),
        b"422",
    )
    moved = {
        int(message.value() or b""): dict(headers_of(message)) for message in world.cluster.messages(world.retry_in())
    }
    assert {(h["enrich.tries"], h["enrich.topic"]) for h in moved.values()} == {(b"1", world.topic().encode())}
    places = ("enrich.topic", "enrich.partition", "enrich.offset")
    assert all(h["enrich.origin"] == b"/".join(h[name] or b"" for name in places) for h in moved.values())


def resets_in_body(talk: Talk) -> bool:
    talk.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly the start")
    talk.reset()
    return False


LOST: list[Step | bytes] = [
    closes,
    resets,
    resets_in_body,
    hangs,
    sends_slowly([b"HTTP/1.1 200 OK\r\n", b"content-length: 10\r\n\r\n", *[b"."] * 9], 0.2),
    b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n",
    b"\x00\xff this is no HTTP\r\n\r\n",
    b"HTTP/1.1 999 Much\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 20 Little\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nx: " + b"." * 100_000,
]


def test_without_a_whole_answer_an_event_is_tried_again_here_and_then_waits_for_its_retry(world: ExpelWorld) -> None:
    def decide(ids: list[int]) -> int | bytes | Step:
        return 200 if ids[0] >= GOOD else LOST[ids[0]]

    with Endpoint(decide) as endpoint:
        world.url, world.http = endpoint.url(), {"timeout": "500ms"}
        ids = among_good(range(len(LOST)))
        world.produce(ids)
        with expelling(world):
            world.wait_until_all_is_committed()
    assert world.cluster.ids(world.retry_in()) == Counter(range(len(LOST)))
    assert endpoint.sent == Counter(ids) + Counter(dict.fromkeys(range(len(LOST)), 2))
    assert not world.dead()


def test_an_endpoint_that_cannot_be_reached_or_trusted_costs_no_event(world: ExpelWorld) -> None:
    with Endpoint(tls=server_tls("issued-other")) as endpoint:
        world.url = endpoint.url("localhost")
        world.produce(range(5))
        with expelling(world) as running:
            wait_until(lambda: "certificate" in (running.status().last_error or ""), what="the reason")
            wait_until(lambda: running.count("requests_failed") >= 5, what="some tries")
        assert not endpoint.requests
    world.url = "http://127.0.0.1:1/hook"
    with expelling(world) as running:
        wait_until(lambda: "refused" in (running.status().last_error or ""), what="the reason")
    with Endpoint() as endpoint:
        world.url = endpoint.url()
        with expelling(world):
            moved = set(world.cluster.ids(world.retry_in()))
            endpoint.wait_for({*range(5)} - moved)
        assert endpoint.delivered + world.cluster.ids(world.retry_in()) == Counter(range(5))


def test_an_address_that_is_not_public_gets_nothing_unless_it_is_allowed(world: ExpelWorld) -> None:
    with Endpoint() as endpoint:
        world.url, world.http = endpoint.url("localhost"), {"allow_private": False}
        world.produce(range(5))
        with expelling(world) as running:
            status = running.wait_for_state("held")
            assert "allow_private" in (status.last_error or "")
        assert endpoint.connections == 0
        world.http = {}
        with expelling(world):
            endpoint.wait_for(range(5))


def test_statuses_that_are_named_are_tried_again(world: ExpelWorld) -> None:
    asked: Counter[int] = Counter()

    def decide(ids: list[int]) -> int:
        asked.update(ids)
        return ids[0] if ids[0] < GOOD and asked[ids[0]] < 3 else 200

    with Endpoint(decide) as endpoint:
        world.url, world.section = endpoint.url(), {**world.section, "retry_statuses": [408, 423]}
        ids = among_good([408, 423, 425])
        world.produce(ids)
        with expelling(world):
            wait_for_all(world, endpoint, ids)
    assert set(world.dead()) == {425}
    assert endpoint.sent == Counter(ids) + Counter({408: 2, 423: 2})
