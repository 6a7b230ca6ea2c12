"""What librdkafka's own functions say of topics, beside what the Python client says."""

import time

import pytest

from enrich.base.errors import ConfigError, Unreachable
from enrich.kafka import native_topics
from enrich.kafka.native_topics import NativeTopics
from tests.support.waiting import wait_until


@pytest.fixture
def native(cluster):
    client = NativeTopics(cluster.connection, 5.0)
    yield client
    client.close()


def test_it_says_what_the_python_client_says(native, cluster, new_topic):
    names = [new_topic(partitions=number) for number in (1, 3, 12)]
    assert native.identities(names) == cluster.topics.identities(names)
    assert native.identities([]) == {}


def test_it_says_who_leads_each_partition(native, cluster, new_topic):
    name = new_topic(partitions=3)
    (broker,) = cluster.topics._admin.list_topics(timeout=10).brokers
    assert native.leaders([name, "no-such-topic"]) == {name: [broker] * 3}


def test_a_topic_that_is_grown_or_made_again_is_seen(native, cluster, new_topic):
    name = new_topic(partitions=2)
    before = native.identities([name])[name]
    cluster.topics.grow(name, 3)
    wait_until(lambda: native.identities([name])[name] == (before[0], [0, 1, 2]), what="the added partition")
    cluster.topics.delete(name)
    wait_until(lambda: native.identities([name]) == {}, what="the end of the topic")
    cluster.topics.create(name, partitions=1)
    wait_until(lambda: name in native.identities([name]), what="the new topic")
    assert native.identities([name])[name] == cluster.topics.identity(name)
    assert native.identities([name])[name][0] != before[0]


def test_a_topic_that_is_not_there_leaves_the_others_their_answer(native, topic):
    assert list(native.identities(["no such topic", "no-such-topic", topic])) == [topic]


def test_without_brokers_it_fails_in_time():
    client = NativeTopics({"bootstrap.servers": "127.0.0.1:1"}, 0.2)
    began = time.monotonic()
    with pytest.raises(Unreachable):
        client.identities(["any"])
    assert time.monotonic() - began < 5
    client.close()
    client.close()
    with pytest.raises(Unreachable, match="closed"):
        client.identities(["any"])


def test_settings_that_it_does_not_take_are_refused_without_their_values():
    with pytest.raises(ConfigError) as raised:
        NativeTopics({"bootstrap.servers": "127.0.0.1:1", "security.protocol": "s3cret"}, 1.0)
    assert "s3cret" not in str(raised.value)


def test_a_library_that_lacks_a_function_is_refused(monkeypatch, cluster):
    monkeypatch.setitem(native_topics._FUNCTIONS, "no_such_function", (None, []))
    with pytest.raises(ConfigError, match="no_such_function"):
        NativeTopics(cluster.connection, 1.0)
