"""The ends of many topics in one request."""

from contextlib import closing

import pytest

from enrich.base.errors import EnrichError
from enrich.kafka import new_producer
from enrich.kafka.ends import ManyEnds
from tests.support.waiting import wait_until


@pytest.fixture
def many(cluster):
    with closing(ManyEnds(cluster.connection, 2.0)) as many:
        yield many


def asked(many, topics):
    """Retried: a broker may not know a new topic yet."""
    return wait_until(lambda: _answer(many, topics), what="the brokers' answer")


def _answer(many, topics):
    try:
        return many.of(topics)
    except EnrichError:
        return None


def test_they_are_the_last_stable_offsets_of_the_partitions_asked_for(cluster, many, new_topic):
    first, second = new_topic(partitions=3), new_topic()
    cluster.produce_ids(second, range(5))
    producer = new_producer(cluster.connection, **{"transactional.id": second})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce(second, b"open", b"open")
    producer.flush()
    try:
        assert asked(many, {first: [0, 2], second: [0]}) == {first: {0: 0, 2: 0}, second: {0: 5}}
    finally:
        producer.abort_transaction()


def test_one_partition_that_is_not_there_is_an_error_of_all_and_not_a_hole(cluster, many, new_topic):
    topic = new_topic()
    cluster.produce_ids(topic, range(5))
    assert asked(many, {topic: [0]}) == {topic: {0: 5}}
    with pytest.raises(EnrichError):
        many.of({topic: [0], f"{topic}.gone": [0]})
    with pytest.raises(EnrichError):
        many.of({topic: [0, 7]})


def test_nothing_is_asked_about_nothing(many):
    assert many.of({}) == {}
