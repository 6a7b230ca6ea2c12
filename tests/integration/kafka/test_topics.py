"""Topics as the product needs them."""

import time
from contextlib import closing
from functools import partial

import pytest

from enrich.base.errors import ConfigError, Unreachable
from enrich.kafka import COMPACTED, Topics, new_admin_client, new_group_consumer
from tests.support.waiting import wait_until


def test_a_topic_recreated_under_its_name_has_another_id(cluster, topic):
    first = cluster.topics.topic_id(topic)
    cluster.topics.delete(topic)
    wait_until(lambda: not cluster.topics.exists(topic), what="the end of the topic")
    cluster.topics.create(topic, partitions=2, config=COMPACTED)
    assert cluster.topics.topic_id(topic) != first
    assert cluster.topics.partitions(topic) == [0, 1]


def test_making_a_topic_that_is_there_and_asking_for_one_that_is_not_are_errors_that_name_it(cluster, topic):
    with pytest.raises(ConfigError, match="already exists") as raised:
        cluster.topics.create(topic)
    assert raised.value.where == f"topic {topic}"
    with pytest.raises(ConfigError, match="create the topic") as raised:
        cluster.topics.end_offsets("nowhere")
    assert raised.value.where == "topic nowhere"


def test_no_call_waits_longer_than_its_deadline():
    topics = Topics(new_admin_client({"bootstrap.servers": "127.0.0.1:1"}), deadline_s=0.3)
    for call in (topics.exists, topics.partitions, topics.create, topics.delete):
        with pytest.raises(Unreachable):
            call("t")


def test_a_new_group_starts_at_the_beginning_and_commits_only_when_told(cluster, topic):
    cluster.produce_ids(topic, range(3))
    seen = []
    for _ in range(2):
        with closing(new_group_consumer(cluster.connection, f"group-of-{topic}")) as consumer:
            consumer.subscribe([topic])
            received = [wait_until(partial(consumer.poll, 0.1)) for _ in range(3)]
            seen.append([message.offset() for message in received if message is not None])
    assert seen == [[0, 1, 2], [0, 1, 2]]


def test_a_record_that_comes_while_a_time_is_looked_for_is_not_older(cluster, new_topic, monkeypatch):
    """Nothing was so new when the brokers were asked for the time. Who begins there must not miss what came next."""
    topics, topic = cluster.topics, new_topic()
    cluster.produce_ids(topic, range(5))
    last_ms = cluster.messages(topic)[-1].timestamp()[1]
    wait_until(lambda: time.time_ns() // 10**6 > last_ms, what="another time")
    ask, asked = topics._offsets, list[object]()

    def asks(*what):
        found = ask(*what)
        if not asked:
            cluster.produce_ids(topic, [5])
        asked.append(what)
        return found

    monkeypatch.setattr(topics, "_offsets", asks)
    assert topics.offsets_at(topic, last_ms + 1) == {0: 5}
    # Long before there was Kafka. To the brokers negative times mean something else.
    assert topics.offsets_at(topic, -1) == topics.offsets_at(topic, -1_357_554_960_000) == {0: 0}
