"""Following topics: records once and in order, gaps and markers passed over, what only a rebuild can cure reported."""

from functools import partial

import pytest

from enrich.base.errors import CorruptState
from enrich.host.follow.tailer import Tailer
from enrich.kafka import new_producer, new_store_consumer
from tests.support.waiting import wait_until


@pytest.fixture
def tailer(cluster):
    tailer = Tailer(partial(new_store_consumer, cluster.connection))
    yield tailer
    tailer.close()


class Seen:
    """What a tailer brought so far."""

    def __init__(self, tailer):
        self._tailer = tailer
        self.values = {}
        self.positions = {}
        self.faults = {}

    def reaches(self, condition):
        def poll_once():
            for topic, tailed in self._tailer.poll(1_000, 0.02).items():
                self.values.setdefault(topic, []).extend(int(m.value()) for m in tailed.messages)
                self.positions.setdefault(topic, {}).update(tailed.positions)
                if tailed.fault is not None:
                    self.faults[topic] = tailed.fault
            return condition(self)

        wait_until(poll_once, what="what the tailer should bring")


def test_several_topics_are_followed_each_from_its_own_offset(cluster, tailer, new_topic):
    first, second = new_topic(), new_topic()
    cluster.produce_ids(first, range(10))
    cluster.produce_ids(second, range(100, 103))
    tailer.follow("users", first, {0: 7})
    tailer.follow("users", second, {0: 0})
    seen = Seen(tailer)
    seen.reaches(lambda s: s.positions == {first: {0: 10}, second: {0: 3}})
    cluster.produce_ids(first, [10])
    seen.reaches(lambda s: s.positions[first] == {0: 11})
    assert seen.values == {first: [7, 8, 9, 10], second: [100, 101, 102]}


def test_a_topic_far_behind_does_not_hold_up_the_others(cluster, tailer, new_topic):
    backlog, quiet = new_topic(), new_topic()
    cluster.produce_ids(backlog, range(150_000))
    cluster.produce_ids(quiet, [1])
    tailer.follow("users", backlog, {0: 0})
    tailer.follow("devices", quiet, {0: 0})
    seen = Seen(tailer)
    seen.reaches(lambda s: len(s.values.get(backlog, ())) > 30_000 and quiet in s.values)
    before = len(seen.values[backlog])
    cluster.produce_ids(quiet, [2])
    seen.reaches(lambda s: s.values[quiet] == [1, 2])
    assert len(seen.values[backlog]) - before < 50_000  # of more than 100,000 that were fetched long before
    cluster.produce_ids(backlog, [150_000])
    seen.reaches(lambda s: s.positions[backlog] == {0: 150_001})
    assert seen.values[backlog] == list(range(150_001))


def test_positions_pass_over_the_markers_of_transactions(cluster, tailer, topic):
    producer = new_producer(cluster.connection, **{"transactional.id": topic})
    producer.init_transactions(10)
    for end_transaction in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"1", b"1")
        producer.flush()
        end_transaction()
    tailer.follow("users", topic, {0: 0})
    seen = Seen(tailer)
    seen.reaches(lambda s: s.positions == {topic: {0: 4}})
    assert seen.values == {topic: [1]}


def test_a_topic_can_be_left_and_partitions_can_be_added(cluster, tailer, new_topic):
    topic, other = new_topic(partitions=2), new_topic()
    tailer.follow("users", topic, {0: 0})
    tailer.follow("users", other, {0: 0})
    tailer.follow("users", topic, {0: 0, 1: 0})
    tailer.leave("users", other)
    assert tailer.followed == {topic: {0: 0, 1: 0}}
    cluster.produce_ids(other, [1])
    cluster.produce_ids(topic, range(20))
    seen = Seen(tailer)
    seen.reaches(lambda s: len(s.values.get(topic, [])) == 20)
    assert sorted(seen.values[topic]) == list(range(20))
    assert other not in seen.values


def test_a_topic_is_read_again_when_somebody_is_behind_in_it(cluster, tailer, topic):
    cluster.produce_ids(topic, range(5))
    tailer.follow("users", topic, {0: 4})
    seen = Seen(tailer)
    seen.reaches(lambda s: s.positions == {topic: {0: 5}})
    tailer.follow("users", topic, {0: 2})
    seen.reaches(lambda s: len(s.values[topic]) == 4)
    tailer.follow("users", topic, {0: 5})
    cluster.produce_ids(topic, [5])
    seen.reaches(lambda s: len(s.values[topic]) == 5)
    assert seen.values == {topic: [4, 2, 3, 4, 5]}


def test_a_topic_that_one_table_leaves_is_read_on_for_the_others(cluster, tailer, topic):
    tailer.follow("users", topic, {0: 0})
    tailer.follow("others", topic, {0: 0})
    tailer.leave("users", topic)
    cluster.produce_ids(topic, [0])
    seen = Seen(tailer)
    seen.reaches(lambda s: s.values.get(topic) == [0])
    tailer.leave("others", topic)
    assert tailer.followed == {}


def test_an_offset_that_is_gone_is_a_fault_of_its_topic_alone(cluster, tailer, new_topic):
    topic, healthy = new_topic(), new_topic()
    cluster.produce_ids(topic, range(3))
    cluster.produce_ids(healthy, range(3))
    tailer.follow("users", topic, {0: 50})
    tailer.follow("users", healthy, {0: 0})
    seen = Seen(tailer)
    seen.reaches(lambda s: topic in s.faults and len(s.values.get(healthy, [])) == 3)
    assert isinstance(seen.faults[topic], CorruptState)
    assert set(tailer.followed) == {healthy}
