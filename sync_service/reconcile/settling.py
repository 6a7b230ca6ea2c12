"""Waits until a running route has written what its topic has: until its group has committed past it."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing

from confluent_kafka import Consumer

from enrich.base.errors import EnrichError
from enrich.kafka import Connection, new_group_consumer
from enrich.kafka.groups import committed

_ASKED_EVERY_S = 0.25
# If the group commits nothing for so long, nobody writes. A route commits every two seconds; a busy machine is slower.
_SILENCE_S = 6.0
# Wait no longer for a route that stays behind: then its rows really differ.
_AT_MOST_S = 60.0
_UNKNOWN_S = 1.0


class Settling:
    """Watches the group of one route."""

    def __init__(self, connection: Connection, group: str, topic: str, stopping: threading.Event) -> None:
        self._connection = connection
        self._group = group
        self._topic = topic
        self._stopping = stopping

    def wait(self, ends: Mapping[int, int]) -> None:
        """Returns when all below the ends is written, or sooner if nobody writes."""
        try:
            with closing(new_group_consumer(self._connection, self._group)) as consumer:
                self._until(consumer, ends)
        except EnrichError:  # the group's offsets cannot be read
            self._stopping.wait(_UNKNOWN_S)

    def _until(self, consumer: Consumer, ends: Mapping[int, int]) -> None:
        begin = progressed = time.monotonic()
        before = reached = self._reached(consumer, sorted(ends))
        while any(reached.get(partition, 0) < end for partition, end in ends.items()):
            now = time.monotonic()
            if reached != before:
                before, progressed = reached, now
            # A group without a commit is usually a route that never ran, rarely one in its first two seconds.
            silence_s = _SILENCE_S if reached else _UNKNOWN_S
            if now - progressed > silence_s or now - begin > _AT_MOST_S or self._stopping.wait(_ASKED_EVERY_S):
                return
            reached = self._reached(consumer, sorted(ends))

    def _reached(self, consumer: Consumer, partitions: Sequence[int]) -> dict[int, int]:
        return {each.partition: each.offset for each in committed(consumer, self._group, self._topic, partitions)}
