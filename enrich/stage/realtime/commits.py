"""What the group of a stage has committed: offsets, and the notes of its slots."""

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Consumer

from enrich.kafka import Connection, new_assigned_consumer
from enrich.kafka.groups import committed_of
from enrich.stage.realtime.assignment import Partition
from enrich.stage.realtime.notes import Note

_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Commit:
    """Of one partition."""

    offset: int
    """Of the first record that is not processed."""
    note: Note | None


Commits = Mapping[Partition, Commit]


class GroupCommits:
    """Reads them, without what is part of an open transaction: a slot that was killed leaves one open for a minute,
    unless it is fenced. For one thread."""

    def __init__(self, connection: Connection, group: str) -> None:
        self._group = group
        self._consumer = new_assigned_consumer(connection, group, **{"isolation.level": "read_uncommitted"})

    def read(self, partitions: Collection[Partition], deadline_s: float = _PATIENCE_S) -> Commits:
        """Of the partitions that have one. Raises Retryable."""
        return commits_of(self._consumer, self._group, partitions, deadline_s)

    def close(self) -> None:
        self._consumer.close()


def commits_of(
    consumer: Consumer, group: str, partitions: Collection[Partition], deadline_s: float = _PATIENCE_S
) -> Commits:
    """As the consumer's group has them."""
    answered = committed_of(consumer, group, partitions, deadline_s=deadline_s)
    return {(each.topic, each.partition): Commit(each.offset, Note.of_text(each.metadata)) for each in answered}


def read_commits(connection: Connection, group: str, partitions: Collection[Partition]) -> Commits:
    with closing(GroupCommits(connection, group)) as commits:
        return commits.read(partitions)
