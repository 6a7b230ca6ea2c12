"""Expel and the retrier are killed under load: what they say of their events is what happened, event by event."""

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from enrich.kafka import DeliveringProducer
from enrich.kafka.records import headers_of
from enrich.tally import Node, NodeKind, minute_of
from tests.chaos.edge.expel.instances import Instances
from tests.support.edge.expel import Endpoint, ExpelProcess, ExpelWorld
from tests.support.kafka.producing import producing
from tests.support.kafka.topics import Cluster
from tests.support.observe.told import Place, below, places, told, told_by
from tests.support.processes import kill
from tests.support.seed import random_source, rounds
from tests.support.waiting import wait_until

PARTITIONS = 4
PARALLEL, BATCH = 4, 10
EVENT_TIME_MS = 1_700_000_000_000


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    source = random_source("answers of an endpoint")

    def status(ids: list[int]) -> int:
        if any(one % 97 == 0 for one in ids):
            return 422  # dead for ever, once it is alone
        return 503 if source.random() < 0.1 else 200

    with Endpoint(status) as endpoint:
        yield endpoint


def load(world: ExpelWorld, produced: list[int]) -> AbstractContextManager[None]:
    """About a thousand events a second. An event's place follows from its id, and it has an event time."""

    def one(producer: DeliveringProducer, number: int) -> None:
        text, time_ms = b"%d" % number, EVENT_TIME_MS + number % 3 * 60_000
        headers = [("enrich.event_time", b"%d" % time_ms)]
        producer.produce(world.topic(), text, text, headers=headers, partition=number % PARTITIONS)
        produced.append(number)

    return producing(world.cluster, one)


def place_of(world: ExpelWorld, number: int) -> Place:
    return world.topic(), number % PARTITIONS, number // PARTITIONS


def at_work(world: ExpelWorld, instance: ExpelProcess) -> None:
    """Some of what it has delivered is committed, and more is under way."""
    before = sum(world.committed().values())
    wait_until(lambda: sum(world.committed().values()) > before, deadline_s=120, what="a commit")
    count = instance.count()
    wait_until(lambda: instance.count() >= count + 200, deadline_s=120, what="an instance at work")


def test_whatever_is_killed_tallies_say_what_became_of_each_event(
    cluster: Cluster, endpoint: Endpoint, tmp_path: Path
) -> None:
    world = ExpelWorld(cluster, pauses=("1s", "2s", "4s"), url=endpoint.url(), partitions=PARTITIONS)
    world.section = {"batch": {"events": BATCH}, "parallel": PARALLEL}
    world.make()
    produced: list[int] = []
    kills = rounds(2, 20)
    with ExitStack() as held:
        instances = Instances(tmp_path, world, held)
        with load(world, produced):
            for _ in range(kills):
                expel, retrier = instances.expel(), instances.retrier()
                at_work(world, expel)
                kill(expel.process.pid)
                kill(retrier.process.pid)
                # Nobody reads again what is committed: all of it has been told.
                done = below(world.topic(), world.committed().items())
                merged = told(cluster, world.name)
                node = Node(world.name, NodeKind.expel, "acme")
                assert done <= places(merged.of(node).known)
                assert done <= places(merged.reads[node])
            expel, retrier = instances.expel(), instances.retrier()
            at_work(world, expel)
        everything = {place_of(world, number) for number in produced}
        dead = {place_of(world, number) for number in produced if number % 97 == 0}
        endpoint.wait_for([number for number in produced if number % 97], deadline_s=180)
        wait_until(lambda: len(world.dead()) == len(dead), deadline_s=120, what="the dead letters")
        assert expel.stop() == 0
        assert retrier.stop() == 0
    tally = told_by(cluster, world.name, NodeKind.expel, "acme")
    assert places(tally.went) == {place_of(world, number) for number in endpoint.delivered}
    again = endpoint.delivered - Counter(endpoint.delivered.keys())
    assert again.total() <= kills * 3 * PARALLEL * BATCH, "under way, and settled but not committed"
    assert places(tally.dead) == dead == {place_of(world, number) for number in world.dead()}
    assert places(tally.came) == everything
    assert not tally.still_waiting
    waited = set[Place]()
    for pause in world.pauses:
        for message in cluster.messages(world.retry_in(pause)):
            topic, partition, offset = (dict(headers_of(message))["enrich.origin"] or b"").decode().split("/")
            waited.add((topic, int(partition), int(offset)))
    assert places(tally.waiting) <= waited, "invented"
    # A kill between the copy in a retry topic and its report: the event was read again, and told of then.
    assert waited <= places(tally.waiting) | places(tally.went) | places(tally.dead)
    forwarded = told_by(cluster, world.name, NodeKind.retrier, "acme")
    assert places(forwarded.went) == places(forwarded.came) == waited
    minutes = {minute_of(EVENT_TIME_MS) + number for number in range(3)}
    lags = told(cluster, world.name).minutes_of(Node(world.name, NodeKind.expel, "acme"))
    assert {minute for minute in lags if minute is not None} == minutes
    # Each arrival and each delivery that was told has a lag; what a kill made happen again counts again.
    assert tally.lag.went.count >= len(tally.went)
    assert tally.lag.went.count <= sum(endpoint.delivered.values())
