"""Instances killed, started and stopped under load: every event is delivered, and how often tells of kills alone."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from enrich.kafka import DeliveringProducer
from tests.support.edge.expel import Endpoint, ExpelProcess, ExpelWorld
from tests.support.edge.retries import RetrierProcess
from tests.support.kafka.producing import producing
from tests.support.kafka.topics import Cluster
from tests.support.processes import kill
from tests.support.seed import SOAK, random_source, rounds
from tests.support.waiting import wait_until

PARTITIONS = 8
PARALLEL, BATCH = 4, 10
Start = Callable[[], ExpelProcess]


@pytest.fixture
def start_retrier(tmp_path: Path) -> Iterator[Callable[[ExpelWorld], RetrierProcess]]:
    with ExitStack() as held:
        numbers = itertools.count()

        def one(world: ExpelWorld) -> RetrierProcess:
            retrier = RetrierProcess(tmp_path / f"retrier{next(numbers)}", world)
            held.callback(retrier.close)
            return retrier

        yield one


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[ExpelWorld], ExpelProcess]]:
    started: list[ExpelProcess] = []

    def one(world: ExpelWorld) -> ExpelProcess:
        started.append(ExpelProcess(tmp_path / f"expel{len(started)}", world))
        return started[-1]

    yield one
    for process in started:
        process.close()


def load(world: ExpelWorld, produced: list[int]) -> AbstractContextManager[None]:
    """About two thousand events a second as long as the block runs."""

    def one(producer: DeliveringProducer, number: int) -> None:
        text = b"%d" % number
        producer.produce(world.topic(), text, text, partition=number % PARTITIONS)
        produced.append(number)

    return producing(world.cluster, one, pause_s=0.01)


def at_work(instance: ExpelProcess, more: int = 500) -> None:
    before = instance.count()
    wait_until(lambda: instance.count() >= before + more, deadline_s=120, what="an instance at work")


def made(cluster: Cluster, endpoint: Endpoint) -> ExpelWorld:
    section = {"batch": {"events": BATCH}, "parallel": PARALLEL}
    world = ExpelWorld(cluster, pauses=("1s", "2s"), url=endpoint.url(), section=section, partitions=PARTITIONS)
    world.make()
    return world


if SOAK:  # at each run tests/chaos/edge/tallies/test_expel_tallies.py kills both programs

    def test_instances_that_are_killed_lose_nothing_and_repeat_little(
        cluster: Cluster,
        start: Callable[[ExpelWorld], ExpelProcess],
        start_retrier: Callable[[ExpelWorld], RetrierProcess],
    ) -> None:
        source = random_source("answers")
        produced: list[int] = []
        kills = rounds(3, 30)
        # One request in twenty fails, so that some events take the way through the retry topics.
        with Endpoint(lambda _: 503 if source.random() < 0.05 else 200) as endpoint:
            world = made(cluster, endpoint)
            with load(world, produced):
                for _ in range(kills):
                    instance, retrier = start(world), start_retrier(world)
                    at_work(instance)
                    kill(instance.process.pid)
                    kill(retrier.process.pid)
                last, retrier = start(world), start_retrier(world)
                at_work(last)
            endpoint.wait_for(produced, deadline_s=180)
            assert world.dead() == {}

            most = kills * 3 * max(PARALLEL, 4) * BATCH  # under way, and settled but not committed
            assert sum((endpoint.delivered - Counter(produced)).values()) <= most
            assert last.stop() == 0
            assert retrier.stop() == 0


def test_instances_that_come_and_go_repeat_nothing(
    cluster: Cluster, start: Callable[[ExpelWorld], ExpelProcess]
) -> None:
    produced: list[int] = []
    with Endpoint() as endpoint:
        world = made(cluster, endpoint)
        with load(world, produced):
            first = start(world)
            at_work(first)
            others = [start(world) for _ in range(3)]
            for instance in others:
                at_work(instance, 100)
            for instance in others:
                assert instance.stop() == 0
            at_work(first)
        endpoint.wait_for(produced)
        assert first.stop() == 0
        assert endpoint.delivered == Counter(produced)
