"""Reading a topic to its end, where compaction and transactions leave holes."""

from contextlib import closing

import pytest
from confluent_kafka import TopicPartition

from enrich.base.errors import ConfigError, CorruptState, Retryable, Unreachable
from enrich.kafka import kafka_errors, new_group_consumer, new_producer, new_store_consumer, read_to_end
from enrich.kafka.clients.errors import errors_of_known_topic
from enrich.kafka.records import row_versions_of
from tests.support.waiting import wait_until


@pytest.fixture
def consumer(cluster):
    consumer = new_store_consumer(cluster.connection)
    yield consumer
    consumer.close()


def offsets(batches):
    return [message.offset() for batch in batches for message in batch]


def test_everything_below_the_ends_comes_once_and_nothing_at_or_after_them(cluster, consumer, new_topic):
    topic = new_topic(partitions=3)
    cluster.produce_ids(topic, range(1_000))
    ends = cluster.topics.end_offsets(topic)
    cluster.produce_ids(topic, range(1_000, 1_100))
    messages = [m for batch in read_to_end(consumer, topic, {}, ends) for m in batch]
    assert sorted(int(m.value() or -1) for m in messages) == list(range(1_000))


def test_reading_goes_on_from_given_offsets(cluster, consumer, topic):
    cluster.produce_ids(topic, range(10))
    assert offsets(read_to_end(consumer, topic, {0: 7}, {0: 10})) == [7, 8, 9]
    assert offsets(read_to_end(consumer, topic, {0: 3}, {0: 5})) == [3, 4]
    assert offsets(read_to_end(consumer, topic, {0: 10}, {0: 10})) == []


def test_an_aborted_transaction_at_the_end_is_passed_over_and_does_not_hold_the_reader_up(cluster, consumer, topic):
    cluster.produce_ids(topic, [1])
    producer = new_producer(cluster.connection, **{"transactional.id": topic})
    producer.init_transactions(10)
    for end_transaction in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"2", b"2")
        producer.flush()
        end_transaction()
    # The record, then two transactions of a record and a marker each: a commit returns before its marker stands there.
    ends = {0: 5}
    wait_until(lambda: cluster.topics.end_offsets(topic) == ends, what="the markers")
    assert offsets(read_to_end(consumer, topic, {}, ends)) == [0, 1]


def test_an_open_transaction_is_above_the_last_stable_offset(cluster, topic):
    cluster.produce_ids(topic, [1])
    producer = new_producer(cluster.connection, **{"transactional.id": topic})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(topic, b"2", b"2")
    producer.flush()
    assert cluster.topics.end_offsets(topic) == {0: 1}
    producer.abort_transaction()


def test_an_offset_that_is_gone_is_corrupt_state_and_never_a_silent_jump(cluster, consumer, topic):
    cluster.produce_ids(topic, range(3))
    with pytest.raises(CorruptState, match="rebuild the table"):
        list(read_to_end(consumer, topic, {0: 50}, {0: 60}))


def test_a_broker_that_does_not_answer_ends_in_unreachable(topic):
    with (
        closing(new_store_consumer({"bootstrap.servers": "127.0.0.1:1"})) as consumer,
        pytest.raises(Unreachable, match="partitions 0"),
    ):
        list(read_to_end(consumer, topic, {}, {0: 1}, stalled_s=0.2))


def test_messages_become_row_versions_and_null_keys_go_along(cluster, topic):
    cluster.produce(topic, [(b"a", b"1"), (None, b"2"), (b"b", None)])
    batch = row_versions_of(cluster.messages(topic))
    assert batch.select(["key", "partition", "offset", "value"]).to_pylist() == [
        {"key": b"a", "partition": 0, "offset": 0, "value": b"1"},
        {"key": None, "partition": 0, "offset": 1, "value": b"2"},
        {"key": b"b", "partition": 0, "offset": 2, "value": None},
    ]


@pytest.mark.parametrize(("errors", "kind"), [(kafka_errors, ConfigError), (errors_of_known_topic, Retryable)])
def test_an_offset_of_a_topic_that_was_deleted_is_committed_when_it_is_back(cluster, topic, errors, kind):
    position = TopicPartition(topic, 0, 0)
    with closing(new_group_consumer(cluster.connection, topic)) as consumer:
        consumer.commit(offsets=[position], asynchronous=False)
        cluster.topics.delete(topic)
        with pytest.raises(kind, match="Unknown topic"), errors(f"topic {topic}"):
            consumer.commit(offsets=[position], asynchronous=False)
