"""The topic of tallies is away: events go on and are committed, the status says so, and all is said once it is back."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from enrich.tally import Node, NodeKind
from enrich.tally.writing import TOPIC_SETTINGS
from tests.support.edge.expel import Endpoint, ExpelProcess, ExpelWorld, RunningExpel, expelling
from tests.support.kafka.topics import Cluster
from tests.support.observe.told import below, places, told
from tests.support.waiting import wait_until


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def world(cluster: Cluster, endpoint: Endpoint) -> ExpelWorld:
    world = ExpelWorld(cluster, url=endpoint.url())
    world.make()
    return world


def take_at_most(world: ExpelWorld, size: int) -> None:
    world.cluster.take_at_most(f"{world.name}.tallies", size)


def warnings(running: RunningExpel) -> list[str]:
    return [one for one in running.status().details["warnings"] if "tallies" in one]


def test_a_topic_that_takes_nothing_holds_nothing_up(world: ExpelWorld, endpoint: Endpoint) -> None:
    world.cluster.topics.create(f"{world.name}.tallies", config=TOPIC_SETTINGS)
    take_at_most(world, 10)
    with expelling(world) as running:
        for part in range(3):
            world.produce(range(part * 100, part * 100 + 100))
            endpoint.wait_for(range(part * 100, part * 100 + 100))
            world.wait_until_all_is_committed()
        wait_until(lambda: warnings(running), what="a warning")
        assert not told(world.cluster, world.name).by_key
        take_at_most(world, 1_000_000)
        wait_until(lambda: not warnings(running), deadline_s=60, what="the end of the warning")
    merged, node = told(world.cluster, world.name), Node(world.name, NodeKind.expel, "acme")
    everything = below(world.topic(), world.cluster.topics.end_offsets(world.topic()).items())
    assert places(merged.of(node).went) == everything == places(merged.reads[node])
    assert len(everything) == 300


def test_a_program_that_ends_waits_a_moment_for_a_topic_in_trouble(
    world: ExpelWorld, endpoint: Endpoint, tmp_path: Path
) -> None:
    """What it has not said by then would never be said."""
    world.cluster.topics.create(f"{world.name}.tallies", config=TOPIC_SETTINGS)
    take_at_most(world, 10)
    with closing(ExpelProcess(tmp_path / "process", world)) as instance:
        world.produce(range(100))
        endpoint.wait_for(range(100))
        world.wait_until_all_is_committed()
        wait_until(lambda: "tallies are not written" in str(instance.route()), what="a warning")
        take_at_most(world, 1_000_000)
        assert instance.stop() == 0
    merged, node = told(world.cluster, world.name), Node(world.name, NodeKind.expel, "acme")
    assert places(merged.of(node).went) == below(world.topic(), world.cluster.topics.end_offsets(world.topic()).items())


def test_a_topic_that_is_missing_is_made_and_one_that_was_deleted_is_made_again(
    world: ExpelWorld, endpoint: Endpoint
) -> None:
    topics, topic = world.cluster.topics, f"{world.name}.tallies"
    node = Node(world.name, NodeKind.expel, "acme")
    with expelling(world):
        world.produce(range(100))
        endpoint.wait_for(range(100))
        wait_until(lambda: len(told(world.cluster, world.name).of(node).went) == 100, what="tallies")
        assert topics.settings(topic)["message.timestamp.type"] == "LogAppendTime"
        topics.delete(topic)
        wait_until(lambda: not topics.exists(topic), what="the topic's end")
        world.produce(range(100, 200))
        endpoint.wait_for(range(100, 200))
        world.wait_until_all_is_committed()
        wait_until(lambda: topics.exists(topic), deadline_s=120, what="the new topic")
        wait_until(
            lambda: len(told(world.cluster, world.name).of(node).went) == 100, deadline_s=120, what="new tallies"
        )


def test_a_pipeline_that_wants_no_tallies_has_none(world: ExpelWorld, endpoint: Endpoint) -> None:
    class Without(ExpelWorld):
        def data(self, listen: str = "127.0.0.1:0") -> dict[str, object]:
            return {**super().data(listen), "tallies": False}

    without = Without(world.cluster, url=endpoint.url(), name=world.name)
    with expelling(without):
        without.produce(range(10))
        endpoint.wait_for(range(10))
        without.wait_until_all_is_committed()
    assert not without.cluster.topics.exists(f"{world.name}.tallies")
