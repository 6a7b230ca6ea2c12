"""Records in columns: what is written comes back, by librdkafka's own functions and by the Python client's objects."""

import itertools
from contextlib import closing

import confluent_kafka
import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from enrich.kafka import new_assigned_consumer, new_producer
from enrich.kafka.clients.errors import MISSING_TOPIC
from enrich.kafka.columnar import HEADERS, Came, Records, native
from enrich.kafka.columnar.native import NativeIncoming, NativeOutgoing, is_known
from enrich.kafka.columnar.plain import PlainIncoming, PlainOutgoing
from enrich.kafka.writing.transactions import TransactionalProducer
from tests.support.seed import random_source, rounds
from tests.support.waiting import GUARD_S, wait_until

WAYS = list(itertools.product([NativeOutgoing, PlainOutgoing], [NativeIncoming, PlainIncoming]))
_NUMBERS = itertools.count()


@pytest.fixture
def topic(cluster):
    name = f"columnar-{next(_NUMBERS)}"
    cluster.topics.create(name, partitions=1)
    wait_until(lambda: cluster.topics.end_offsets(name), what="the topic")
    return name


def random_records(source, topics):
    def text(most):
        return source.choice([None, b"", source.randbytes(source.randint(1, most))])

    count = source.randint(1, 300)
    headers = [
        [{"key": source.choice([b"a", "ü".encode(), b"enrich.origin"]), "value": text(40)} for _ in range(number)]
        for number in source.choices([0, 1, 5], k=count)
    ]
    return Records(
        topics,
        np.array(source.choices(range(len(topics)), k=count), np.int32),
        pa.array([text(20) for _ in range(count)], pa.binary()),
        pa.array([text(3_000) for _ in range(count)], pa.binary()),
        pa.array(headers, HEADERS),
    )


def read(cluster, topics, count, way, begin=0):
    """All records of some topics with one partition, by topic."""
    found: dict[str, list[object]] = {name: [] for name in topics}
    consumer = new_assigned_consumer(cluster.connection, "nobody")
    with closing(consumer), closing(way(consumer)) as incoming:
        incoming.begin([TopicPartition(name, 0, begin) for name in topics])

        def is_all_there():
            came = incoming.take(97, 0.1)
            for name, row in rows_of(came):
                found[name].append(row)
            return sum(map(len, found.values())) >= count

        wait_until(is_all_there, what="all records")
    return found


def rows_of(came: Came | None):
    if came is None:
        return
    assert len(came) == len(came.keys) == len(came.values) == len(came.headers)
    assert (came.partition == 0).all() and (came.time_ms > 10**12).all()
    for at in range(len(came)):
        headers = [(each["key"], each["value"]) for each in came.headers[at].as_py()]
        yield came.topics[came.topic[at]], (came.keys[at].as_py(), came.values[at].as_py(), headers)


def test_the_client_is_one_whose_handle_is_known():
    assert is_known(), f"check where confluent-kafka {confluent_kafka.__version__} has its handle, then add it"


@pytest.mark.parametrize(("outgoing", "incoming"), WAYS)
def test_what_is_written_is_read(cluster, topic, outgoing, incoming):
    source = random_source(f"columnar {outgoing.__name__} {incoming.__name__}")
    another = f"{topic}-b"
    cluster.topics.create(another, partitions=1)
    wait_until(lambda: cluster.topics.end_offsets(another), what="the topic")
    topics, count = [topic, another], 0
    expected: dict[str, list[object]] = {topic: [], another: []}
    producer = new_producer(cluster.connection)
    with closing(outgoing(producer)) as out:
        for _ in range(rounds(5, 200)):
            records = random_records(source, topics)
            begin = source.randrange(len(records))
            some = Records(  # a part of longer columns
                topics,
                records.topic[begin:],
                records.keys.slice(begin),
                records.values.slice(begin),
                records.headers.slice(begin),
            )
            out.write(some, GUARD_S)
            for at in range(begin, len(records)):
                headers = [(each["key"], each["value"]) for each in records.headers[at].as_py()]
                row = (records.keys[at].as_py(), records.values[at].as_py(), headers)
                expected[topics[records.topic[at]]].append(row)
                count += 1
        assert producer.flush(GUARD_S) == 0
    assert read(cluster, topics, count, incoming) == expected


@pytest.mark.parametrize("outgoing", [NativeOutgoing, PlainOutgoing])
def test_a_full_queue_is_waited_for(cluster, topic, outgoing):
    producer = new_producer(cluster.connection, **{"queue.buffering.max.messages": 10})
    number = pa.array([b"%d" % n for n in range(500)])
    with closing(outgoing(producer)) as out:
        out.write(Records.of(topic, number, number, pa.array([[]] * 500, HEADERS)), GUARD_S)
        assert producer.flush(GUARD_S) == 0
    rows = read(cluster, [topic], 500, NativeIncoming)[topic]
    assert [value for _, value, _ in rows] == number.to_pylist()
    rows = read(cluster, [topic], 377, NativeIncoming, begin=123)[topic]
    assert [value for _, value, _ in rows] == number.to_pylist()[123:]


@pytest.mark.parametrize("incoming", [NativeIncoming, PlainIncoming])
def test_records_are_taken_one_by_one_if_that_is_asked_for(cluster, topic, incoming):
    producer = new_producer(cluster.connection)
    for number in range(5):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(GUARD_S) == 0
    consumer, values = new_assigned_consumer(cluster.connection, "nobody"), []
    with closing(consumer), closing(incoming(consumer)) as reading:
        reading.begin([TopicPartition(topic, 0, 0)])

        def is_all_there():
            came = reading.take(1, 0.1)
            if came is not None:
                values.append(came.values.to_pylist())
            return len(values) == 5

        wait_until(is_all_there, what="all records")
    assert values == [[b"%d" % number] for number in range(5)]


def test_what_is_more_than_a_column_holds_is_taken_in_parts(cluster, topic, monkeypatch):
    monkeypatch.setattr(native, "_MOST_BYTES", 1_000)
    values = [b"%d" % number + bytes(300) for number in range(20)]
    values[7] += bytes(2_000)  # alone
    cluster.produce(topic, [(b"k", value) for value in values])
    consumer = new_assigned_consumer(cluster.connection, "nobody", **{"enable.partition.eof": True})
    found, sizes = [], []
    with closing(consumer), closing(NativeIncoming(consumer)) as reading:
        reading.begin([TopicPartition(topic, 0, 0)])

        def is_at_end():
            came = reading.take(15, 0.1)
            if came is None:
                return False
            found.extend(came.values.to_pylist())
            sizes.append(sum(map(len, came.values.to_pylist())))
            assert not came.reached or len(found) == 20
            return bool(came.reached)

        wait_until(is_at_end, what="the end")
    assert found == values
    assert sorted(size for size in sizes if size > 1_000) == [len(values[7])]


@pytest.mark.parametrize("outgoing", [NativeOutgoing, PlainOutgoing])
def test_what_the_client_refuses_is_an_error(cluster, topic, outgoing):
    producer = new_producer(cluster.connection, **{"message.max.bytes": 2_000})
    value = pa.array([b"x" * 3_000])
    with closing(outgoing(producer)) as out, pytest.raises(KafkaException) as raised:
        out.write(Records.of(topic, value, value, pa.array([[{"key": b"a", "value": b"b"}]], HEADERS)), GUARD_S)
    assert raised.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


@pytest.mark.parametrize("incoming", [NativeIncoming, PlainIncoming])
def test_an_offset_that_is_gone_is_an_error(cluster, topic, incoming):
    consumer = new_assigned_consumer(cluster.connection, "nobody")
    with closing(consumer), closing(incoming(consumer)) as reading, pytest.raises(KafkaException) as raised:
        reading.begin([TopicPartition(topic, 0, 1_000)])
        wait_until(lambda: reading.take(10, 0.1), what="an error")
    assert raised.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET


@pytest.mark.parametrize("incoming", [NativeIncoming, PlainIncoming])
def test_the_end_of_a_partition_is_told_also_behind_the_marker_of_a_transaction(cluster, topic, incoming):
    with closing(TransactionalProducer(cluster.connection, topic)) as producer:
        producer.start()
        with producer.transaction():
            producer.produce(topic, [b"key"], [b"value"])
    consumer = new_assigned_consumer(cluster.connection, "nobody", **{"enable.partition.eof": True})
    values, reached = [], {}
    with closing(consumer), closing(incoming(consumer)) as reading:
        reading.begin([TopicPartition(topic, 0, 0)])

        def is_at_end():
            came = reading.take(10, 0.1)
            if came is not None:
                values.extend(came.values.to_pylist())
                reached.update(came.reached)
            return reached == {(topic, 0): 2}

        wait_until(is_at_end, what="the end")
    assert values == [b"value"]


def test_brokers_that_are_not_there_do_not_end_the_process():
    """As the Python client does where librdkafka has something to tell it."""
    consumer = new_assigned_consumer({"bootstrap.servers": "127.0.0.1:1"}, "nobody")
    with closing(consumer), closing(NativeIncoming(consumer)) as reading:
        reading.begin([TopicPartition("absent", 0, 0)])
        # What it has to tell comes meanwhile.
        assert reading.take(10, 1.0) is None
        assert reading.take(10, 1.0) is None


def test_a_topic_that_is_deleted_is_an_error_and_does_not_end_the_process(cluster, topic):
    producer = new_producer(cluster.connection)
    producer.produce(topic, b"1")
    assert producer.flush(GUARD_S) == 0
    often = {"topic.metadata.refresh.interval.ms": 500}
    consumer = new_assigned_consumer(cluster.connection, "nobody", **often)
    with closing(consumer), closing(NativeIncoming(consumer)) as reading:
        reading.begin([TopicPartition(topic, 0, 0)])
        wait_until(lambda: reading.take(10, 0.1), what="the record")
        cluster.topics.delete(topic)
        with pytest.raises(KafkaException) as raised:
            wait_until(lambda: reading.take(10, 0.1), what="an error")
    assert raised.value.args[0].code() in MISSING_TOPIC


def test_a_header_whose_name_is_no_text_is_read(cluster, topic):
    """By the native way; the Python client's own cannot."""
    producer = new_producer(cluster.connection)
    names = pa.array([[{"key": b"\xff\xfe", "value": b"1"}]], HEADERS)
    with closing(NativeOutgoing(producer)) as out:
        out.write(Records.of(topic, pa.array([b"k"]), pa.array([b"v"]), names), GUARD_S)
        assert producer.flush(GUARD_S) == 0
    assert read(cluster, [topic], 1, NativeIncoming)[topic] == [(b"k", b"v", [(b"\xff\xfe", b"1")])]
