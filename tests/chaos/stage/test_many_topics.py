"""kill -9 of the driver and of workers of a stage with several topics. One of them comes while it runs, or is added
when it was killed: then its oldest events are gone."""

import json

import pytest

from tests.support.kafka.topics import delete_records
from tests.support.processes import kill, python_workers
from tests.support.seed import variants
from tests.support.stage.world import Load, run_to_the_end, running_stage
from tests.support.waiting import wait_until

SCHEMA = {"format": "json", "schema": "user_id string"}


class SpreadLoad(Load):
    """Over all topics, and each of them over its partitions."""

    topics: tuple[str, ...] = ()

    def _produce(self, events):
        topics = self.topics  # once: the test may give it others meanwhile
        for index, topic in enumerate(topics):
            own = [each for each in events if each["id"] % len(topics) == index]
            values = [(b"%d" % each["id"], json.dumps(each).encode()) for each in own]
            self._world.cluster.produce(topic, values)


def more(world, stage, number, running):
    before = world.records(stage)
    running.wait_until(lambda: world.records(stage) >= before + number, what="further output")


def lose_oldest(world, topic):
    """Its first events, in every partition, as retention deletes them."""
    world.cluster.produce(topic, [(b"%d" % number, b"{}") for number in range(100)])
    ends = world.cluster.topics.end_offsets(topic)
    assert all(ends.values())
    delete_records(world.cluster.connection, topic, ends)


@pytest.mark.parametrize("way", variants("topics", "topic_pattern"))
def test_no_event_of_any_topic_is_missing_after_kills_of_driver_and_worker(world, way):
    world.users()
    topics = (world.topic("plays.a"), world.topic("plays.b"))
    later = topics[0].removesuffix("a") + "c"
    source = {"topics": [*topics]} if way == "topics" else {"topic_pattern": later[:-1].replace(".", "\\.") + "[a-z]"}
    lookup = {"table": "users", "key": "user_id", "as": "user"}
    stage = world.stage("enrich", [lookup], source={**source, **SCHEMA})
    load = SpreadLoad(world, stage)
    load.topics = topics
    with load, running_stage(world, stage) as running:
        more(world, stage, 500, running)
        wait_until(lambda: python_workers(running.pid), what="a worker")
        kill(next(iter(python_workers(running.pid))))
        more(world, stage, 500, running)
        if way == "topics":
            source["topics"].append(world.topic("plays.c"))
            lose_oldest(world, later)
            world.stage("enrich", [lookup], source={**source, **SCHEMA})
        else:
            world.topic("plays.c")
        load.topics = (*topics, later)
        more(world, stage, 1_000, running)
        kill(running.pid)
    run_to_the_end(world, stage, load)
    assert all(sum(world.cluster.topics.end_offsets(topic).values()) for topic in load.topics)
    assert set(world.ids(stage)) == set(range(load.sent))
