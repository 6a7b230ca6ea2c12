"""A producer that cannot lose a record quietly."""

import pytest

from enrich.base.errors import BadRecord, ConfigError, Unreachable
from enrich.kafka import DeliveringProducer, new_producer
from enrich.kafka.clients.errors import ClientOver
from enrich.kafka.writing.queueing import is_queued
from tests.support.kafka.fatal import make_fatal
from tests.support.seed import random_source
from tests.support.waiting import GUARD_S


def test_what_flush_has_returned_for_is_in_the_topic_exactly(cluster, topic):
    with DeliveringProducer(cluster.connection) as producer:
        for one in range(5_000):
            producer.produce(topic, str(one).encode(), str(one).encode())
        producer.flush()
        assert cluster.ids(topic) == dict.fromkeys(range(5_000), 1)


def test_headers_timestamp_partition_key_and_tombstone_arrive_as_given(cluster, new_topic):
    topic = new_topic(partitions=3)
    with DeliveringProducer(cluster.connection) as producer:
        producer.produce(topic, b"k", None, headers={"enrich.version": b"7"}, timestamp_ms=1_234, partition=2)
    (message,) = cluster.messages(topic)
    assert (message.key(), message.value(), message.partition()) == (b"k", None, 2)
    assert (message.headers(), message.timestamp()[1]) == ([("enrich.version", b"7")], 1_234)


def test_the_first_failed_delivery_is_raised_with_topic_and_key_and_every_later_call_raises_it(cluster, new_topic):
    topic = new_topic(max_message_bytes="2000")
    producer = DeliveringProducer(cluster.connection, **{"compression.type": "none"})
    producer.produce(topic, b"too-large", b"x" * 5_000)
    with pytest.raises(BadRecord, match="too-large") as raised:
        producer.flush()
    assert raised.value.where == f"topic {topic}, key too-large"
    for call in (producer.flush, producer.close, lambda: producer.produce(topic, b"k", b"v")):
        with pytest.raises(BadRecord):
            call()


def test_a_topic_that_is_not_there_is_an_error_and_is_not_made(cluster):
    producer = DeliveringProducer(cluster.connection, **{"topic.metadata.propagation.max.ms": 200})
    producer.produce("nowhere", b"k", b"v")
    with pytest.raises(ConfigError, match="create the topic"):
        producer.close()
    assert not cluster.topics.exists("nowhere")


def test_a_broker_that_does_not_answer_ends_in_unreachable_at_the_deadline():
    producer = DeliveringProducer({"bootstrap.servers": "127.0.0.1:1"})
    producer.produce("t", b"k", b"v")
    with pytest.raises(Unreachable, match=r"1 records were not acknowledged within 0.2 s"):
        producer.flush(deadline_s=0.2)


def test_an_error_that_the_client_cannot_get_over_is_raised_by_every_later_call_and_the_end_is_quiet(cluster, topic):
    with pytest.raises(RuntimeError, match="of its own"), DeliveringProducer(cluster.connection) as producer:
        make_fatal(producer._producer)
        for call in (lambda: producer.produce(topic, b"k", b"v"), lambda: producer.produce(topic, b"k", b"v")):
            with pytest.raises(ClientOver):
                call()
        raise RuntimeError("of its own")


def test_a_record_larger_than_the_memory_for_records_that_wait_is_written(cluster, new_topic):
    topic = new_topic(max_message_bytes="3000000")
    connection = {**cluster.connection, "message.max.bytes": 3_000_000, "queue.buffering.max.kbytes": 1024}
    producer = new_producer(connection)
    assert is_queued(producer, topic, random_source("large").randbytes(2_000_000))
    assert producer.flush(GUARD_S) == 0
    assert [len(message.value()) for message in cluster.messages(topic)] == [2_000_000]
