"""A stage whose brokers, of events and tables alike, fall silent in the middle of its work."""

from pathlib import Path

from tests.support.kafka.topics import Cluster
from tests.support.links.two_hosts import BROKER, Client, silent
from tests.support.stage.world import Load, StageWorld, running_stage

LOOKUP = {"table": "users", "key": "user_id", "as": "user", "on_miss": "dlq"}


def test_no_event_is_missing_after_a_silence_longer_than_a_request(
    client: Client, cluster: Cluster, tmp_path: Path
) -> None:
    world = StageWorld(cluster, tmp_path)
    world.users()
    stage = world.stage("enrich", [LOOKUP])
    try:
        with running_stage(world, stage, within=client.command()) as running:
            with Load(world, stage):
                running.wait_until(lambda: world.records(stage) >= 500, what="output")
                before = len(running.told())
                with silent(BROKER):
                    # Kafka's clients give a request 30 s.
                    running.wait_until(lambda: "timeout" in running.told()[before:].lower(), what="a request's end")
                more = world.records(stage) + 1_000
                running.wait_until(lambda: world.records(stage) >= more, what="output after the silence")
            given = {str(message.value()) for message in cluster.messages(world.topic("enrich.in"))}
            running.wait_until(lambda: len(world.seen(stage)) >= len(given), what="all events")
            running.tell()
            assert running.end() == 0, running.told()
        assert set(world.ids(stage)) == set(range(len(given)))
    finally:
        world.close()
