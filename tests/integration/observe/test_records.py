"""Where a topic has records that can be read, on a real broker."""

from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from enrich.dev.stack import Addresses
from enrich.kafka import Topics, new_admin_client
from enrich.kafka.writing.transactions import TransactionalProducer
from enrich.tally.origins import Range
from observe_service.watching.records import Records
from tests.support.kafka.topics import delete_records

_NUMBERS = iter(range(10**6))


class Topic:
    """Of one partition, written to in transactions."""

    def __init__(self, servers: str) -> None:
        self.connection = {"bootstrap.servers": servers}
        self.name = f"records-{next(_NUMBERS)}"
        self.topics = Topics(new_admin_client(self.connection))
        self.topics.create(self.name)
        self.producer = TransactionalProducer(self.connection, self.name)
        self.producer.start()

    def write(self, count: int, *, is_kept: bool = True) -> None:
        """These, and a marker behind them."""
        numbers = [b"%d" % number for number in range(count)]
        with suppress(KeyboardInterrupt), self.producer.transaction():
            self.producer.produce(self.name, numbers, numbers)
            self.producer.client.flush(30)
            if not is_kept:
                raise KeyboardInterrupt

    def of(self, *ranges: tuple[int, int]) -> list[Range]:
        return [(self.name, 0, first, last) for first, last in ranges]

    def within(self, *ranges: tuple[int, int]) -> tuple[list[Range], list[Range]]:
        with closing(Records(self.connection, self.topics)) as records:
            found, empty = records.within(self.of(*ranges))
            return [*found.ranges()], [*empty.ranges()]


@pytest.fixture
def topic(stack: Addresses) -> Iterator[Topic]:
    made = Topic(str(stack.bootstrap_servers))
    with closing(made.producer):
        yield made


def test_markers_and_what_was_aborted_are_no_records(topic: Topic) -> None:
    topic.write(10)  # marker at 10
    topic.write(5, is_kept=False)  # 11 to 15, marker at 16
    topic.write(3)  # 17 to 19, marker at 20
    assert topic.within((10, 16)) == ([], topic.of((10, 16)))
    assert topic.within((8, 18)) == (topic.of((8, 9), (17, 18)), topic.of((10, 16)))
    assert topic.within((3, 4), (9, 12), (20, 20)) == (topic.of((3, 4), (9, 9)), topic.of((10, 12), (20, 20)))


def test_a_range_is_looked_into_up_to_very_many_records(topic: Topic) -> None:
    topic.write(3_000, is_kept=False)  # marker at 3,000
    topic.write(2_000)
    found, empty = topic.within((0, 5_000))
    assert empty == topic.of((0, 3_000))
    assert found[0][:3] == (topic.name, 0, 3_001)
    assert found[0][3] < 4_500


def test_what_is_not_committed_yet_is_neither_there_nor_not(topic: Topic) -> None:
    topic.write(10)
    with topic.producer.transaction():
        topic.producer.produce(topic.name, [b"a"], [b"b"])
        topic.producer.client.flush(30)
        assert topic.within((9, 11)) == (topic.of((9, 9)), topic.of((10, 10)))


def test_what_is_deleted_is_not_there(topic: Topic) -> None:
    topic.write(10)
    delete_records(topic.connection, topic.name, {0: 6})
    assert topic.within((2, 8)) == ([], topic.of((2, 5)))
    assert topic.within((6, 8)) == (topic.of((6, 8)), [])
