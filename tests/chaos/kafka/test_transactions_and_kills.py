"""Transactions go on after a kill of the broker, in whatever call it comes."""

import threading
import time
from contextlib import closing

from confluent_kafka import TopicPartition

from enrich.base.errors import Retryable
from enrich.kafka import new_assigned_consumer
from enrich.kafka.groups import committed
from enrich.kafka.writing.transactions import TransactionalProducer
from tests.support.kafka.topics import Cluster
from tests.support.processes import kill
from tests.support.seed import rounds
from tests.support.waiting import wait_until

PRODUCERS = 4
TOPIC = "events"


class Committing:
    """Commits rising offsets of a group of its own, always with the same producer."""

    def __init__(self, connection, number):
        self.connection, self.group, self.offset, self.error = connection, f"readers-{number}", 0, None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        with (
            closing(TransactionalProducer(self.connection, self.group, deadline_s=10)) as producer,
            closing(new_assigned_consumer(self.connection, self.group)) as consumer,
        ):
            producer.start()
            group = consumer.consumer_group_metadata()
            while not self._stop.is_set():
                try:
                    with producer.transaction():
                        producer.send_offsets([TopicPartition(TOPIC, 0, self.offset + 1)], group)
                    self.offset += 1
                except Retryable:
                    time.sleep(0.05)
                except Exception as error:
                    self.error = error
                    raise

    def end(self):
        self._stop.set()
        self._thread.join()


def test_a_producer_goes_on_after_kills_of_the_broker(own_stack):
    cluster = Cluster({"bootstrap.servers": own_stack.addresses().bootstrap_servers})
    cluster.topics.create(TOPIC, partitions=1)
    all_of_them = [Committing(cluster.connection, number) for number in range(PRODUCERS)]

    def go_on():
        before = [each.offset for each in all_of_them]

        def is_further():
            assert not [each.error for each in all_of_them if each.error is not None]
            return all(each.offset > then + 1 for each, then in zip(all_of_them, before, strict=True))

        wait_until(is_further, what="commits of all")

    try:
        go_on()
        for _ in range(rounds(1, 30)):
            kill(cluster.broker_pid())
            own_stack.up()
            go_on()
    finally:
        for each in all_of_them:
            each.end()
    for each in all_of_them:
        with closing(new_assigned_consumer(cluster.connection, each.group)) as consumer:
            (found,) = committed(consumer, each.group, TOPIC, [0])
            # A commit may have raised, and have taken place.
            assert each.offset <= found.offset <= each.offset + 1
