"""The broker is killed under a running stage and comes back: what it had acknowledged comes out, or goes to the DLQ."""

import json
from collections import Counter

import pytest

from tests.support.kafka.topics import Cluster
from tests.support.processes import kill
from tests.support.seed import rounds, variants
from tests.support.stage.world import Load, StageWorld, running_stage

LOOKUP = {"table": "users", "key": "user_id", "as": "user", "on_miss": "dlq"}


def ids(messages):
    return Counter(json.loads(message.value())["id"] for message in messages)


@pytest.mark.parametrize("profile", variants("latency", "realtime"))
def test_no_acknowledged_event_is_missing_after_kills_of_the_broker(own_stack, tmp_path, profile):
    addresses = own_stack.addresses()
    world = StageWorld(Cluster({"bootstrap.servers": addresses.bootstrap_servers}), tmp_path)
    world.users()
    stage = world.stage("enrich", [LOOKUP], profile=profile)
    kills = rounds(1, 10)
    with running_stage(world, stage) as running:
        with Load(world, stage, lambda number: "ann" if number % 3 else "nobody") as load:
            running.wait_until(lambda: world.records(stage) >= 500, what="output")
            for _ in range(kills):
                kill(world.cluster.broker_pid())
                own_stack.up()
                more = world.records(stage) + 1_000
                running.wait_until(lambda: world.records(stage) >= more, what="output after the kill")  # noqa: B023
        # Whatever is in the topic now was acknowledged, or might have been.
        given = ids(world.cluster.messages(world.topic("enrich.in")))
        assert set(given) >= set(range(load.sent))

        def seen():
            return ids(world.cluster.messages(world.topic("enrich.out"))) + ids(world.dead_letters(stage))

        running.wait_until(
            lambda: world.records(stage) >= given.total() and set(seen()) >= set(given), what="all events"
        )
        running.tell()
        assert running.end() == 0, running.told()
    found = seen()
    assert set(found) == set(given)
    assert {number % 3 == 0 for number in ids(world.dead_letters(stage))} == {True}
    if profile == "realtime":
        assert found == given, "an event is written twice"
    # A task that failed while the broker was away writes its part of a batch again: at most a batch a kill.
    assert found.total() - given.total() <= load.largest_backlog * kills
    world.close()
