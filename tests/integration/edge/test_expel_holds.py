"""A route on hold sends nothing, whichever instance would, until a person resumes it; by commands that people use."""

import json
import signal
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enrich.cli.main import app
from enrich.config import holds_topic
from enrich.delivery.holds import make_holds_topic
from tests.support.edge.expel import Endpoint, ExpelProcess, ExpelWorld, RunningExpel, expelling
from tests.support.kafka.topics import Cluster
from tests.support.waiting import wait_until

REFUSALS = 20


@pytest.fixture
def world(cluster: Cluster) -> ExpelWorld:
    made = ExpelWorld(cluster, pauses=("1h",), section={"batch": {"events": 1}, "parallel": 16})
    made.make()
    return made


def order(folder: Path, world: ExpelWorld, *arguments: str) -> str:
    file = folder / "pipeline.yaml"
    file.write_text(json.dumps(world.data()))
    result = CliRunner().invoke(app, ["expel", *arguments, "-c", str(file)])
    assert result.exit_code == 0, result.output
    return result.output


def test_an_endpoint_that_refuses_us_gets_twenty_requests_and_the_rest_once_a_person_resumes_the_route(
    world: ExpelWorld, tmp_path: Path
) -> None:
    world.produce(range(200))
    with Endpoint(lambda _: 401) as endpoint:
        world.url = endpoint.url()
        with expelling(world) as first:
            held = first.wait_for_state("held")
            assert "401" in str(held.last_error)
            assert held.is_ready  # a customer that refuses us stops no rollout
        refused = set(endpoint.sent)
        assert len(refused) == REFUSALS
        with expelling(world) as second:  # another instance, later
            second.wait_for_state("held")
            assert set(endpoint.sent) == refused
            assert set(world.dead()) == refused
            endpoint.decide = lambda _: 200
            assert "resumed" in order(tmp_path, world, "resume", "acme")
            endpoint.wait_for(set(range(200)) - refused)
        assert set(endpoint.delivered) == set(range(200)) - refused


def test_a_hold_that_its_topic_does_not_take_at_once_is_there_for_the_next_instance(
    world: ExpelWorld, tmp_path: Path
) -> None:
    """It would send on, and make dead letters of twenty requests more."""
    world.produce(range(200))
    topic = holds_topic(world.name)
    make_holds_topic(world.cluster.topics, world.name)
    world.cluster.take_at_most(topic, 10)
    with Endpoint(lambda _: 401) as endpoint:
        world.url = endpoint.url()
        with closing(ExpelProcess(tmp_path / "first", world)) as first:
            wait_until(lambda: "a hold cannot be written" in first.log, deadline_s=60, what="the refusal of the hold")
            world.cluster.take_at_most(topic, 1_000_000)
            assert first.stop() == 0
        refused = set(endpoint.sent)
        with expelling(world) as second:
            second.wait_for_state("held")
        assert set(endpoint.sent) == refused
    assert len(refused) == REFUSALS


def test_a_route_that_a_person_holds_is_paused_and_goes_on_where_it_was(world: ExpelWorld, tmp_path: Path) -> None:
    world.produce(range(50))
    with Endpoint() as endpoint:
        world.url = endpoint.url()
        instance = ExpelProcess(tmp_path / "process", world)
        try:
            endpoint.wait_for(range(50))
            order(tmp_path, world, "hold", "acme", "--reason", "the customer moves")
            wait_until(lambda: instance.route().get("state") == "paused", deadline_s=60, what="the pause")
            assert "the customer moves" in instance.route()["last_error"]
            world.produce(range(50, 100))
            with expelling(world) as another:
                another.wait_for_state("paused")
            assert set(endpoint.sent) == set(range(50))
            order(tmp_path, world, "resume", "acme")
            endpoint.wait_for(range(100))
            assert max(endpoint.delivered.values()) == 1
            assert instance.stop() == 0
        finally:
            instance.close()


def test_a_dead_endpoint_leaves_its_route_ready(world: ExpelWorld) -> None:
    world.produce(range(50))
    with expelling(world) as running:  # nothing listens on port 1

        def status(service: RunningExpel = running) -> bool:
            return service.status().state == "waiting" and service.status().is_ready

        wait_until(status, deadline_s=60, what="an open breaker")


def test_an_instance_is_ready_once_its_group_has_given_it_its_share(cluster: Cluster, tmp_path: Path) -> None:
    """Brokers wait for all members before they share the partitions out, here for one that stands still."""
    patient = {"session.timeout.ms": 200_000, "heartbeat.interval.ms": 1_000}
    world = ExpelWorld(cluster, pauses=("1h",), client=patient, partitions=1)
    world.make()
    first = ExpelProcess(tmp_path / "first", world)
    with closing(first):
        wait_until(lambda: first.get("/readyz")[0] == 200, what="the first one's readiness")
        assert first.partitions() > 0
        first.process.send_signal(signal.SIGSTOP)
        with closing(ExpelProcess(tmp_path / "second", world)) as second:
            wait_until(lambda: "partitions" in second.route().get("gauges", {}), what="the second one's consumer")
            assert second.get("/readyz")[0] == 503
            assert second.get("/healthz")[0] == 200
            first.process.send_signal(signal.SIGCONT)
            wait_until(lambda: second.get("/readyz")[0] == 200, what="its readiness without a partition")
            assert second.partitions() == 0
