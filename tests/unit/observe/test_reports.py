"""What nodes have said is given out, whatever else comes with it."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, TopicPartition

from enrich.tally import Node, NodeKind, Report, encoded
from observe_service.watching import reports
from observe_service.watching.reports import Reports

NODE = Node("p", NodeKind.expel, "acme")


def message(partition: int, offset: int, value: bytes = b"", error: KafkaError | None = None) -> Any:
    said = {"value": value, "error": error, "partition": partition, "offset": offset, "timestamp": (2, 1_000 + offset)}
    return SimpleNamespace(**{name: lambda each=each: each for name, each in said.items()})


class Consumer:
    """Gives out batches, and notes from where it has to read."""

    def __init__(self, batches: list[Sequence[Any]]) -> None:
        self.batches = batches
        self.assigned: list[dict[int, int]] = []

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self.assigned.append({place.partition: place.offset for place in places})

    def consume(self, _: int, __: float) -> Sequence[Any]:
        return self.batches.pop(0) if self.batches else []

    def close(self) -> None:
        """Nothing."""


def test_what_came_with_an_error_of_another_partition_is_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers have just deleted what comes next in partition 1."""
    said = [encoded(Report(NODE, "a", sequence, 0))[0] for sequence in range(4)]
    gone = message(1, 7, error=KafkaError(KafkaError._AUTO_OFFSET_RESET))
    consumer = Consumer([[message(0, 0, said[0]), message(0, 1, said[1]), gone, message(0, 2, said[2])]])
    monkeypatch.setattr(reports, "new_store_consumer", lambda _: consumer)
    topics = SimpleNamespace(
        offsets_at=lambda *_: {0: 0, 1: 7}, start_offsets=lambda _: {0: 0, 1: 9}, partitions=lambda _: [0, 1]
    )
    reading = Reports({}, cast(Any, topics), "p.tallies")
    reading.begin(0)
    found = [each.report.sequence for each in reading.poll(0)]
    reading._due_s = 0
    assert reading.trouble is not None
    reading.poll(0)
    following = consumer.assigned[-1]
    assert following[1] == 9
    assert found == [*range(following[0])], "what is not read again was given out"


def test_all_that_was_said_until_then_is_given_out_only_if_the_last_record_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is still on its way may be all that a node had to say of a minute."""
    said = encoded(Report(NODE, "a", 1, 0))[0]
    consumer = Consumer([[message(0, 0, said)], [message(0, 1, said)]])
    monkeypatch.setattr(reports, "new_store_consumer", lambda _: consumer)
    topics = SimpleNamespace(offsets_at=lambda *_: {0: 0}, start_offsets=lambda _: {0: 0}, partitions=lambda _: [0])
    reading = Reports({}, cast(Any, topics), "p.tallies")
    reading.begin(0)
    reading.poll(0)
    reading.at_ends(9_000, {0: 2})
    assert reading.until_ms == 1_000
    reading.poll(0)
    reading.at_ends(9_000, {0: 2})
    assert reading.until_ms == 9_000


def test_partitions_that_the_topic_was_given_meanwhile_are_read_before_more_is_called_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said, count = encoded(Report(NODE, "a", 1, 0))[0], 1
    consumer = Consumer([[message(0, 0, said)], [], [message(1, 0, said)]])
    monkeypatch.setattr(reports, "new_store_consumer", lambda _: consumer)
    topics = SimpleNamespace(
        offsets_at=lambda *_: {0: 0},
        start_offsets=lambda _: dict.fromkeys(range(count), 0),
        partitions=lambda _: [*range(count)],
    )
    reading = Reports({}, cast(Any, topics), "p.tallies")
    reading.begin(0)
    reading.poll(0)
    count = 2
    for _ in range(2):
        reading.at_ends(9_000, {0: 1, 1: 1})
        assert reading.until_ms == 1_000
        reading.poll(0)
    assert consumer.assigned == [{0: 0}, {0: 1, 1: 0}]
    reading.at_ends(9_000, {0: 1, 1: 1})
    assert reading.until_ms == 9_000


def test_a_topic_that_is_made_again_is_read_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    said = encoded(Report(NODE, "a", 1, 0))[0]
    consumer = Consumer([[message(0, 0, said), message(0, 1, said)]])
    monkeypatch.setattr(reports, "new_store_consumer", lambda _: consumer)
    topics = SimpleNamespace(offsets_at=lambda *_: {0: 0}, start_offsets=lambda _: {0: 0}, partitions=lambda _: [0])
    reading = Reports({}, cast(Any, topics), "p.tallies")
    reading.begin(0)
    reading.poll(0)
    reading.made_again()
    reading.poll(0)
    assert consumer.assigned == [{0: 0}, {0: 0}]
    assert reading.until_ms == 1_001, "what was said before was given out"
