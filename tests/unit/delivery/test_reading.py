"""What a flow reads, and what it hears from its client besides."""

from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from enrich.delivery.partitions.assigned import Assigned
from enrich.delivery.partitions.gaps import Gap
from enrich.delivery.partitions.positions import Marks, Partition
from enrich.delivery.plan import FlowPlan, Sink, Work
from enrich.delivery.reading import Reading

LOST = KafkaError(KafkaError._AUTO_OFFSET_RESET)


class _Client:
    """Consumer and sink in one. As the real client does, it says once that an offset is gone, also of a partition that
    is paused, and returns nothing of it any more."""

    def __init__(self) -> None:
        self.said = [_message(10, LOST)]
        self.begun: list[int] = []
        self.remarked: list[Gap] = []

    def consume(self, *_: Any) -> list[Message]:
        said, self.said = self.said, []
        return said

    def poll(self, _: float) -> None: ...

    def pause(self, _: list[TopicPartition]) -> None: ...

    def resume(self, _: list[TopicPartition]) -> None: ...

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        return 50, 100

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.begun += [one.offset for one in partitions]

    def incremental_unassign(self, _: list[TopicPartition]) -> None: ...

    def remark(self, gap: Gap) -> None:
        self.remarked.append(gap)


def _message(offset: int, error: KafkaError | None = None) -> Message:
    said = {"topic": "rows", "partition": 0, "offset": offset, "error": error, "leader_epoch": 0}
    return cast("Message", SimpleNamespace(**{name: lambda it=it: it for name, it in said.items()}))


def reading() -> tuple[_Client, Work, Reading]:
    client = _Client()
    work = Work(FlowPlan("rows", 0, {}, 0), cast("Sink", client), Assigned(cast("Consumer", client)), lambda: 0)
    work.assigned.add(Partition("rows", 0, 10, Marks(0), silent_since=None))
    return client, work, Reading(work)


def test_records_that_were_removed_unread_are_passed_by_also_if_the_client_says_so_during_a_long_write() -> None:
    client, _, reader = reading()
    reader.keep_alive()
    assert not client.begun and not client.remarked  # the sink is busy
    reader.end_keep_alive()
    reader.read()
    reader.read()
    assert client.begun == [50]
    assert [gap.doubt for gap in client.remarked] == ["records 10 to 50 of partition 0 were removed unread"]


def test_what_the_client_said_of_a_partition_before_it_went_and_came_back_is_forgotten() -> None:
    client, work, reader = reading()
    reader.keep_alive()
    work.assigned.add(Partition("rows", 0, 50, Marks(0), silent_since=None))
    reader.end_keep_alive()
    reader.read()
    assert not client.begun and not client.remarked


def test_a_record_that_comes_while_others_are_written_is_not_taken_for_written_with_them() -> None:
    client, work, reader = reading()
    (partition,) = work.assigned.all()
    partition.pending.append(_message(10))
    client.said = [_message(11)]
    reader.keep_alive()
    partition.written()
    assert partition.position == 11
    reader.read()
    assert [message.offset() for message in partition.pending] == [11]
