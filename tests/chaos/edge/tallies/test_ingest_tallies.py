"""Ingest and expel behind it are killed under load: what they say is what a plain consumer and the endpoint find."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from enrich.dev.servers.ports import choose
from enrich.tally import Node, NodeKind, minute_of
from tests.chaos.edge.ingest.senders import Senders
from tests.support.edge.expel import Endpoint, ExpelProcess, ExpelWorld, origins_in
from tests.support.edge.ingesting import started
from tests.support.kafka.topics import Cluster
from tests.support.observe.told import Place, places, told
from tests.support.processes import kill
from tests.support.seed import rounds
from tests.support.waiting import wait_until


@dataclass
class Chain(ExpelWorld):
    """Events come in over HTTP into the topic of the route."""

    port: int = 0
    processes: int = 2

    def data(self, listen: str = "127.0.0.1:0") -> dict[str, Any]:
        data = super().data(listen)
        entry = {"listen": f"127.0.0.1:{self.port}", "path": "/v1/plays", "topic": self.topic(), "format": "json"}
        data["ingest"] = {"plays": {**entry, "key": "id", "event_time": "at", "processes": self.processes}}
        data["pages"] = {**data["pages"], "ingest": "127.0.0.1:0"}
        return data


class Timed(Senders):
    """Their events happened in one of three minutes, which follows from the id."""

    def event(self, one: int) -> dict[str, Any]:
        return {"id": one, "at": at_ms(one)}


def at_ms(one: int) -> int:
    return 1_700_000_000_000 + one % 3 * 60_000


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        yield endpoint


def test_what_ingest_says_is_in_the_topic_and_what_a_kill_hides_the_next_node_says(
    cluster: Cluster, endpoint: Endpoint, tmp_path: Path
) -> None:
    (port,) = choose(1, ())
    world = Chain(cluster, url=endpoint.url(), partitions=3, port=port)
    world.make()
    config = tmp_path / "pipeline.yaml"
    config.write_text(json.dumps(world.data()))
    plays, acme = Node(world.name, NodeKind.ingest, "plays"), Node(world.name, NodeKind.expel, "acme")
    with ExitStack() as held:
        expel = ExpelProcess(tmp_path / "expel", world)
        held.callback(expel.close)
        with Timed(port) as senders:
            for _ in range(rounds(2, 10)):
                with started(config) as ingest:
                    ingest.until_ready()
                    before = len(told(cluster, world.name).of(plays).went)
                    senders.until_acknowledged(200)
                    wait_until(lambda: len(told(cluster, world.name).of(plays).went) > before, what="a tally")  # noqa: B023
                    # The parent first: it would replace a child.
                    for pid in [ingest.process.pid, *ingest.processes()]:
                        kill(pid)
            assert places(told(cluster, world.name).of(plays).went) <= set(written(world)), "invented"
            killed = time.time()
            with started(config) as ingest:
                ingest.until_ready()
                senders.until_acknowledged(200)
                assert ingest.stop() == 0
        everything = written(world)
        wait_until(lambda: origins_in_all(endpoint) >= set(everything), deadline_s=120, what="the events")
        assert expel.stop() == 0
    merged = told(cluster, world.name)
    found = places(merged.of(plays).went)
    assert found <= set(everything), "invented"
    # What the program that was stopped has acknowledged is all there. Not what is above some offset: a broker may still
    # write what a killed program has sent.
    of_last = {one for one in senders.acknowledged if senders.began[one] > killed}
    assert of_last and {place for place, one in everything.items() if one in of_last} <= found
    assert places(merged.of(acme).went) == places(merged.of(acme).came) == set(everything) == origins_in_all(endpoint)
    for minute, tally in merged.minutes_of(plays).items():
        assert {minute_of(at_ms(everything[place])) for place in places(tally.went)} <= {minute}
        assert tally.lag.came.count == tally.lag.went.count
    of_acme = merged.minutes_of(acme)
    assert set(of_acme) - {None} == {minute_of(at_ms(one)) for one in range(3)}


def written(world: Chain) -> dict[Place, int]:
    """By place, the id of the event there: as a plain consumer finds them."""
    return {
        (message.topic() or "", message.partition() or 0, message.offset() or 0): int(
            json.loads(message.value() or b"")["id"]
        )
        for message in world.cluster.messages(world.topic())
    }


def origins_in_all(endpoint: Endpoint) -> set[Place]:
    return set(origins_in(request.seen for request in list(endpoint.got) if request.status == 200))
