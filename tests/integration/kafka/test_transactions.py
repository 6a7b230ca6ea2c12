"""Transactions: all or nothing, one writer, and where the records stand."""

from contextlib import ExitStack, closing

import pytest

from enrich.base.errors import BadRecord, Fenced, Retryable
from enrich.kafka.writing.transactions import TransactionalProducer
from enrich.kafka.writing.whole_transactions import WholeTransactions
from tests.support.seed import random_source
from tests.support.waiting import wait_until, when_reachable


@pytest.fixture
def producer(cluster, topic):
    producer = TransactionalProducer(cluster.connection, f"id of {topic}")
    producer.start()
    yield producer
    producer.close()


def test_the_records_of_a_transaction_are_there_after_it_and_their_places_are_told(cluster, new_topic, producer):
    topic = new_topic(partitions=3)
    keys = [b"%d" % number for number in range(300_000)]
    with producer.transaction() as spans:
        producer.produce(topic, keys, [None if number % 3 == 0 else keys[number] for number in range(len(keys))])
    wait_until(lambda: sum(cluster.topics.end_offsets(topic).values()) >= len(keys))
    messages = cluster.messages(topic)
    assert {message.key(): message.value() for message in messages} == {
        key: None if number % 3 == 0 else key for number, key in enumerate(keys)
    }
    for partition, span in spans.items():
        places = [message.offset() for message in messages if message.partition() == partition]
        assert (span.first, span.last, span.records) == (min(places), max(places), len(places))
        assert span.is_alone


def test_what_was_raised_inside_leaves_nothing_to_read(cluster, topic, producer):
    with pytest.raises(KeyError), producer.transaction():
        producer.produce(topic, [b"a"], [b"a"])
        raise KeyError
    after = TransactionalProducer(cluster.connection, f"id of {topic}")
    after.start()
    with after.transaction():
        after.produce(topic, [b"b"], [b"b"])
    wait_until(lambda: [message.key() for message in cluster.messages(topic)] == [b"b"])
    after.close()


def test_a_producer_is_shut_out_by_the_next_of_its_id_even_within_a_transaction(cluster, topic, producer):
    with pytest.raises(Fenced, match="another instance took over"), producer.transaction():
        producer.produce(topic, [b"old"], [b"old"])
        after = TransactionalProducer(cluster.connection, f"id of {topic}")
        after.start()
    with after.transaction():
        after.produce(topic, [b"new"], [b"new"])
    wait_until(lambda: [message.key() for message in cluster.messages(topic)] == [b"new"])
    with pytest.raises(Fenced), producer.transaction():
        producer.produce(topic, [b"old"], [b"old"])
    after.close()
    assert [message.key() for message in cluster.messages(topic)] == [b"new"]


@pytest.mark.parametrize(
    "queue",
    [
        lambda producer, topic: producer.produce(topic, [b"old"], [b"old"]),
        lambda producer, topic: producer.produce(topic, [b"old"], [b"old"], [("a", b"b")]),
        lambda producer, topic: producer.produce_one(topic, b"old", b"old"),
    ],
    ids=["many", "headers", "one"],
)
def test_one_that_is_shut_out_hears_of_it_also_while_it_queues_records(cluster, topic, queue):
    with closing(WholeTransactions(cluster.connection, f"id of {topic}")) as producer:
        producer.start()
        with closing(TransactionalProducer(cluster.connection, f"id of {topic}")) as after:
            after.start()
        with pytest.raises(Fenced, match="fenced by a newer instance"), producer.transaction():
            wait_until(lambda: queue(producer, topic), what="an error")


def test_after_a_record_that_the_client_gave_up_the_next_transaction_begins_anew(cluster, topic):
    impatient = {**cluster.connection, "message.timeout.ms": 500, "linger.ms": 5}
    with closing(TransactionalProducer(impatient, f"id of {topic}", deadline_s=1)) as producer:
        producer.start(deadline_s=30)
        with ExitStack() as away, pytest.raises(Retryable), producer.transaction():
            away.enter_context(cluster.brokers_away())
            wait_until(lambda: producer.produce(topic, [b"lost"], [b"lost"]), what="a refusal")

        def written():
            with producer.transaction():
                producer.produce(topic, [b"after"], [b"after"])
            return True

        when_reachable(written, deadline_s=60)
    wait_until(
        lambda: [message.key() for message in cluster.messages(topic)] == [b"after"], what="the next one's record"
    )


@pytest.mark.parametrize("headers", [(), [("a", b"b")]])
def test_a_transaction_that_takes_no_more_records_can_be_tried_again(topic, producer, headers):
    with pytest.raises(Retryable, match="the transaction has failed"), producer.transaction():
        producer._producer.abort_transaction(30)  # as when the client gives it up for a reason of its own
        producer.produce(topic, [b"a"], [b"a"], headers)


@pytest.mark.parametrize(
    "queue",
    [
        lambda producer, topic: producer.produce_one(topic, b"a", b"a"),
        lambda producer, topic: producer.produce_all(topic, [(b"a", b"a", [], 0)]),
    ],
    ids=["one", "all"],
)
def test_so_can_a_whole_one(cluster, topic, queue):
    with closing(WholeTransactions(cluster.connection, f"id of {topic}")) as producer:
        producer.start()
        with pytest.raises(Retryable, match="the transaction has failed"), producer.transaction():
            producer._producer.abort_transaction(30)
            queue(producer, topic)


def test_a_record_of_the_time_0_does_not_become_one_of_now(cluster, topic):
    with closing(WholeTransactions(cluster.connection, f"id of {topic}")) as producer:
        producer.start()
        with producer.transaction():
            for time_ms in (0, 1, 5):
                producer.produce_one(topic, b"a", b"a", time_ms=time_ms)
    wait_until(lambda: [message.timestamp()[1] for message in cluster.messages(topic)] == [1, 1, 5], what="the records")


def test_a_record_that_the_topic_refuses_is_told_and_nothing_of_its_transaction_is_there(cluster, new_topic, producer):
    topic = new_topic(max_message_bytes="2000")
    with pytest.raises(BadRecord, match="Message size too large"), producer.transaction():
        producer.produce(topic, [b"a", b"b"], [b"a", random_source("large").randbytes(5_000)])
    assert cluster.messages(topic) == []


def test_it_goes_on_after_brokers_that_did_not_answer_its_commit(cluster, topic):
    with closing(TransactionalProducer(cluster.connection, f"id of {topic}", deadline_s=1)) as producer:
        producer.start(deadline_s=30)
        with ExitStack() as away, pytest.raises(Retryable), producer.transaction():
            producer.produce(topic, [b"in doubt"], [b"in doubt"])
            wait_until(lambda: sum(cluster.topics.written_offsets(topic).values()) > 0, what="the record")
            away.enter_context(cluster.brokers_away())

        def written():
            with producer.transaction():
                producer.produce(topic, [b"after"], [b"after"])
            return True

        when_reachable(written, deadline_s=60)
    keys = [b"in doubt", b"after"]
    wait_until(lambda: [message.key() for message in cluster.messages(topic)] == keys, what="both transactions")
