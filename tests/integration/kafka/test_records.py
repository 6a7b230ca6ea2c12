"""What clients of other languages write into topics."""

from contextlib import closing

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition

from enrich.kafka import new_producer, new_store_consumer
from enrich.kafka.columnar import HEADERS, Records
from enrich.kafka.columnar.native import NativeOutgoing
from enrich.kafka.records import NO_NAME, headers_of
from enrich.kafka.releases import newest_releases
from tests.support.waiting import GUARD_S, wait_until


@pytest.mark.parametrize("name", [b"\xff\xfe", b"\xc3", b"\xed\xa0\x80"])
def test_a_header_whose_name_is_no_text_has_none(cluster, topic, name):
    headers = [("a", b"1"), (name, b"2"), ("b", None), (name, None), ("a", b"")]
    listed = [{"key": key if isinstance(key, bytes) else key.encode(), "value": value} for key, value in headers]
    producer = new_producer(cluster.connection)
    with closing(NativeOutgoing(producer)) as out:  # the client's own way takes text only
        out.write(Records.of(topic, pa.array([b"k"]), pa.array([b"v"]), pa.array([listed], HEADERS)), GUARD_S)
        assert producer.flush(GUARD_S) == 0
    with closing(new_store_consumer(cluster.connection)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        (message,) = wait_until(lambda: [each for each in consumer.consume(10, 0.1) if not each.error()])
    for _ in range(3):
        assert headers_of(message) == [("a", b"1"), (NO_NAME, b"2"), ("b", None), (NO_NAME, None), ("a", b"")]
    assert message.headers() == headers_of(message)


def test_releases_are_found_beside_such_headers(cluster, topic):
    producer = new_producer(cluster.connection)
    listed = [{"key": b"\xff", "value": b"2"}, {"key": b"enrich.release", "value": b"7"}]
    with closing(NativeOutgoing(producer)) as out:
        number = pa.array([b"%d" % n for n in range(40)])
        out.write(Records.of(topic, number, number, pa.array([listed] * 40, HEADERS)), GUARD_S)
        assert producer.flush(GUARD_S) == 0
    assert newest_releases(cluster.connection, cluster.topics, [topic]) == {topic: 7}
