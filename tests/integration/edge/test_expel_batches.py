"""What a request is made of: bodies, headers, signatures; and what becomes of a batch that is refused or repeated."""

import gzip
import json
from collections import Counter
from collections.abc import Callable

import pytest

from enrich.service.signatures import verifies
from tests.support.edge.expel import Endpoint, ExpelWorld, expelling, ids_of, origins_in
from tests.support.edge.retries import running
from tests.support.kafka.topics import Cluster

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of the standard's example


@pytest.fixture
def world(cluster: Cluster) -> ExpelWorld:
    made = ExpelWorld(cluster, section={"batch": {"events": 50, "wait": "200ms"}})
    made.make()
    return made


def origins_of(world: ExpelWorld, ids: range) -> set[tuple[str, int, int]]:
    return {(world.topic(), one % world.partitions, one // world.partitions) for one in ids}


@pytest.mark.parametrize("refused", [400, 413, 422])
def test_a_refused_batch_is_halved_and_only_the_refused_events_are_dead(world: ExpelWorld, refused: int) -> None:
    bad = {0, 17, 18, 250, 299}
    with Endpoint(lambda ids: refused if bad & set(ids) else 200) as endpoint:
        world.url = endpoint.url()
        world.produce(range(300))
        with expelling(world):
            world.wait_until_all_is_committed()
        assert endpoint.delivered == Counter(set(range(300)) - bad)
    assert {one: letter.reason for one, letter in world.dead().items()} == dict.fromkeys(bad, f"HTTP {refused}")


def test_without_split_a_refused_batch_is_dead_as_a_whole_and_sent_once(world: ExpelWorld) -> None:
    with Endpoint(lambda ids: 422 if 7 in ids else 200) as endpoint:
        world.url, world.section = endpoint.url(), {**world.section, "split": []}
        world.produce(range(300))
        with expelling(world):
            world.wait_until_all_is_committed()
        assert endpoint.sent == Counter(range(300))
        (batch,) = [request.ids for request in endpoint.got if 7 in request.ids]
        assert len(batch) > 1
    assert set(world.dead()) == set(batch)


def in_other_ways(one: int) -> bytes:
    text = json.dumps({"id": one, "text": "eine\nZeile, naïve"}, indent=2 if one % 2 else None)
    return text.encode()


@pytest.mark.parametrize("form", ["ndjson", "json", "single"])
def test_events_arrive_as_they_are_whatever_the_format_of_bodies(world: ExpelWorld, form: str) -> None:
    with Endpoint() as endpoint:
        world.url, world.http = endpoint.url(), {"format": form}
        if form == "single":
            world.section = {}
            endpoint.read_ids = lambda body: [json.loads(body)["id"]]
        world.produce(range(100), value=in_other_ways)
        with expelling(world):
            endpoint.wait_for(range(100))
    kinds = {request.seen.headers["content-type"] for request in endpoint.got}
    assert kinds == {"application/x-ndjson" if form == "ndjson" else "application/json"}
    for request in endpoint.got:
        body = request.seen.body
        if form == "ndjson":
            values = [json.loads(line) for line in body.splitlines()]
        else:
            values = json.loads(body) if form == "json" else [json.loads(body)]
        assert [value["text"] for value in values] == ["eine\nZeile, naïve"] * len(request.ids)
    assert endpoint.sent == Counter(range(100))


def test_a_value_of_nothing_is_dead_and_holds_up_nothing(world: ExpelWorld) -> None:
    values = {5: None, 6: b"", 7: b"  \n"}
    with Endpoint() as endpoint:
        world.url = endpoint.url()
        world.produce(range(20), value=lambda one: values.get(one, b"%d" % one))
        with expelling(world):
            world.wait_until_all_is_committed()
        assert endpoint.sent == Counter(set(range(20)) - values.keys())
    assert {place: letter.reason for place, letter in world.letters().items()} == dict.fromkeys(
        [(1, 2), (0, 3), (1, 3)], "an event without a value has no body"
    )


@pytest.mark.parametrize("zipped", [False, True])
def test_signatures_are_over_the_bytes_of_the_wire_and_a_repeat_has_the_same_id(
    world: ExpelWorld, zipped: bool
) -> None:
    def read_ids(body: bytes) -> list[int]:
        return ids_of(gzip.decompress(body) if zipped else body)

    seen: set[str] = set()

    def decide(_: list[int]) -> int:
        latest = endpoint.requests[-1].headers["webhook-id"]
        is_first = latest not in seen
        seen.add(latest)
        return 503 if is_first else 200

    with Endpoint(decide) as endpoint:
        endpoint.read_ids = read_ids
        world.url, world.http = endpoint.url(), {"secret": [SECRET, "whsec_" + "QUJD" * 8], "gzip": zipped}
        world.section = {**world.section, "parallel": 1}
        world.produce(range(300))
        with expelling(world), running(world):
            endpoint.wait_for(range(300))
        assert endpoint.delivered == Counter(range(300))
    for request in endpoint.got:
        seen_ = request.seen
        assert verifies(SECRET, seen_.headers, seen_.body)
        assert verifies("whsec_" + "QUJD" * 8, seen_.headers, seen_.body)
        assert not verifies(SECRET, seen_.headers, seen_.body + b" ")
        assert seen_.headers.get("content-encoding") == ("gzip" if zipped else None)
    asked = Counter((request.seen.headers["webhook-id"], tuple(request.ids)) for request in endpoint.got)
    assert set(asked.values()) == {2}


def test_each_request_says_by_origins_which_events_it_has_and_the_header_is_bounded(world: ExpelWorld) -> None:
    """Origins of long names that never follow each other are as many bytes as it gets."""
    own = {one: ("raw" * 60, one % 7, one * 3) for one in range(1000, 1400)}

    def name(one: int) -> bytes:
        return "/".join(map(str, own[one])).encode()

    with Endpoint() as endpoint:
        world.url = endpoint.url()
        world.section = {"batch": {"events": 500, "wait": "300ms"}}
        world.produce(range(300))
        world.produce(own, headers=lambda one: [("enrich.origin", each) for each in (b"?", name(one), b"another/0/7")])
        with expelling(world):
            world.wait_until_all_is_committed()
    wanted = origins_of(world, range(300)) | set(own.values())
    assert set(origins_in(request.seen for request in endpoint.got)) == wanted
    lengths = [len(request.seen.headers["enrich-origins"]) for request in endpoint.got]
    assert 3_000 < max(lengths) <= 4096
    assert max(len(request.ids) for request in endpoint.got) > 50


def test_a_batch_is_sent_when_it_is_full_by_count_or_bytes_or_has_waited(world: ExpelWorld) -> None:
    sizes: dict[int, Callable[[int], bytes]] = {
        0: lambda one: b'{"id": %d, "x": "%b"}' % (one, b"x" * 200),
        1: lambda one: b'{"id": %d, "x": "%b"}' % (one, b"x" * 5_000),
    }
    with Endpoint() as endpoint:
        world.url, world.section = endpoint.url(), {"batch": {"events": 100, "bytes": "4KiB", "wait": "100ms"}}
        world.produce(range(200), value=lambda one: sizes[int(one % 50 == 0)](one))
        with expelling(world):
            endpoint.wait_for(range(200))
        assert endpoint.sent == Counter(range(200))
    for request in endpoint.got:
        assert len(request.seen.body) <= 4096 or len(request.ids) == 1
    assert max(len(request.ids) for request in endpoint.got) > 10
