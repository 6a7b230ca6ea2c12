"""An endpoint that refuses us, and a person, hold a route for all its instances: nothing of it is sent meanwhile."""

from collections import Counter

import pytest

from enrich.delivery.holds import PERSON, Hold, change, read
from tests.support.edge.expel import Endpoint, ExpelWorld, expelling
from tests.support.kafka.topics import Cluster
from tests.support.waiting import wait_until


@pytest.fixture
def world(cluster: Cluster) -> ExpelWorld:
    made = ExpelWorld(cluster, section={"batch": {"events": 1}, "parallel": 16})
    made.make()
    cluster.topics.create(f"{made.name}.holds", config={"cleanup.policy": "compact"})
    return made


def hold(world: ExpelWorld, reason: str | None, route: str = "acme") -> None:
    held = None if reason is None else Hold(reason, 1, PERSON)
    change(world.cluster.connection, world.name, route, held)


@pytest.mark.parametrize("status", [401, 410])
def test_the_twentieth_refusal_in_a_row_holds_the_route_for_all_also_after_a_restart(
    world: ExpelWorld, status: int
) -> None:
    well = False
    with Endpoint(lambda _: 200 if well else status) as endpoint:
        world.url = endpoint.url()
        world.produce(range(500))
        with expelling(world) as running:
            shown = running.wait_for_state("held")
            assert f"HTTP {status}, 20 times in a row" in (shown.last_error or "")
            assert "enrich expel resume acme" in (shown.last_error or "")
            wait_until(lambda: read(world.cluster.connection, world.name), what="the hold in its topic")
        assert len(endpoint.got) == 20
        assert len(world.dead()) == 20
        with expelling(world) as first, expelling(world) as second:
            first.wait_for_state("held")
            second.wait_for_state("held")
            assert len(endpoint.got) == 20
            well = True
            hold(world, None)
            world.wait_until_all_is_committed()
        assert endpoint.delivered + Counter(world.dead().keys()) == Counter(range(500))


def test_a_person_pauses_a_route_and_no_other(world: ExpelWorld) -> None:
    world.routes = ("acme", "other")
    world.cluster.topics.create(world.topic("other"), partitions=2)
    with Endpoint() as endpoint:
        world.url = endpoint.url(path="/{route}")
        with expelling(world) as running:
            world.produce(range(10))
            endpoint.wait_for(range(10))
            hold(world, "they move")
            shown = running.wait_for_state("paused")
            assert "they move" in (shown.last_error or "")
            world.produce(range(10, 20))
            world.produce(range(20, 30), topic=world.topic("other"))
            endpoint.wait_for(range(20, 30))
            assert running.status("other").state == "running"
            assert endpoint.sent.keys() == {*range(10), *range(20, 30)}
            hold(world, None)
            endpoint.wait_for(range(10, 20))
        assert endpoint.sent == Counter(range(30))


def test_what_others_write_into_the_topic_of_holds_stops_nothing(world: ExpelWorld) -> None:
    broken = [b"", b"\xff", b"[" * 100_000, b"7", b'{"reason": 1, "since_ms": 1e999, "by": 2}', b'{"since_ms": "now"}']
    with Endpoint() as endpoint:
        world.url = endpoint.url()
        world.cluster.produce(f"{world.name}.holds", [(b"expel/acme", value) for value in broken])
        world.cluster.produce(f"{world.name}.holds", [(b"\xff", b"{}"), (b"x" * 10_000, None)])
        world.produce(range(10))
        with expelling(world) as running:
            endpoint.wait_for(range(10))
            world.cluster.produce(f"{world.name}.holds", [(b"expel/acme", value) for value in broken])
            hold(world, "really")
            running.wait_for_state("paused")


def test_a_hold_that_vanishes_with_its_topic_holds_nothing_any_more(world: ExpelWorld) -> None:
    with Endpoint() as endpoint:
        world.url = endpoint.url()
        with expelling(world) as running:
            world.produce(range(10))
            endpoint.wait_for(range(10))
            hold(world, "for now")
            hold(world, "again")
            running.wait_for_state("paused")
            world.cluster.make_again(f"{world.name}.holds")
            world.produce(range(10, 20))
            endpoint.wait_for(range(10, 20))
