"""Gives a route that is at work the time to write what its topic had: until its group has committed beyond it."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing

from confluent_kafka import Consumer, TopicPartition

from enrich.base.errors import EnrichError
from enrich.kafka import Connection, new_group_consumer
from sync_service.writeback.groups import reached_by

_ASKED_EVERY_S = 0.25
# What is read is committed every two seconds, and a busy machine is slower.
_SILENCE_S = 6.0
# A route that never comes nearer is behind: then its rows are as different as they look.
_AT_MOST_S = 60.0
_UNKNOWN_S = 1.0


class Settling:
    """Of the group of one route."""

    def __init__(self, connection: Connection, group: str, topic: str, stopping: threading.Event) -> None:
        self._connection = connection
        self._group = group
        self._topic = topic
        self._stopping = stopping

    def wait(self, ends: Mapping[int, int]) -> None:
        """Returns once all below the ends is written, and sooner where nobody writes."""
        try:
            with closing(new_group_consumer(self._connection, self._group)) as consumer:
                self._until(consumer, ends)
        except EnrichError:  # nobody may say how far the group is
            self._stopping.wait(_UNKNOWN_S)

    def _until(self, consumer: Consumer, ends: Mapping[int, int]) -> None:
        begin = progressed = time.monotonic()
        before = reached = self._reached(consumer, sorted(ends))
        while any(reached.get(partition, 0) < end for partition, end in ends.items()):
            now = time.monotonic()
            if reached != before:
                before, progressed = reached, now
            # A group without a commit may be a route in its first two seconds, and more often one that never ran.
            silence_s = _SILENCE_S if reached else _UNKNOWN_S
            if now - progressed > silence_s or now - begin > _AT_MOST_S or self._stopping.wait(_ASKED_EVERY_S):
                return
            reached = self._reached(consumer, sorted(ends))

    def _reached(self, consumer: Consumer, partitions: Sequence[int]) -> dict[int, int]:
        places = [TopicPartition(self._topic, partition) for partition in partitions]
        return {place.partition: place.offset for place in reached_by(consumer, self._group, places)}
