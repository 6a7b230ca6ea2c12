"""Leader election among processes: the first member of a consumer group has the turn."""

import time
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from enrich.base.errors import Retryable
from enrich.kafka.clients.errors import kafka_errors, mapped
from enrich.kafka.clients.making import Connection, new_group_consumer

_DECIDING = 0
_ASKED_EVERY_S = 0.5


class Turn:
    """Competes for the turn on behalf of one process, which keeps it until it leaves, ends or is dropped by the group.

    Nothing is read or committed. A waiting process checks whether the group has members, and joins if it has none; of
    two that join at the same moment the one that gets the topic's first partition wins. A process that was frozen
    notices late that it lost its turn, so its writes must be fenced as well.
    """

    def __init__(
        self,
        connection: Connection,
        admin: AdminClient,
        group: str,
        topic: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._group = group
        self._topic = topic
        self._clock = clock
        self._admin = admin
        self._consumer: Consumer | None = None
        self._partitions: set[int] = set()
        self._ask_again = 0.0
        self.is_behind = False
        """Another process has the turn, as far as is known."""
        self.taken = 0
        """How often it got the turn: more than before tells that it lost it meanwhile."""

    def has_it(self, wait_s: float = 0.0) -> bool:
        """Whether we have the turn now. Must be called at least every few minutes (it polls), else the turn is lost."""
        if self._consumer is None and not self._joined(wait_s):
            return False
        assert self._consumer is not None  # noqa: S101 - joined
        with kafka_errors(f"consumer group {self._group}"):
            event = self._consumer.poll(wait_s)
        if event is not None and (error := event.error()) is not None and not error.retriable():
            raise mapped(error, f"consumer group {self._group}")
        if self._partitions and _DECIDING not in self._partitions:
            self.close()  # another process joined at the same moment and has the turn
            self.is_behind = True
        return _DECIDING in self._partitions

    def close(self) -> None:
        """Leaves the group: another process can get the turn at once."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()
        self._partitions.clear()

    def _joined(self, wait_s: float) -> bool:
        now = self._clock()
        if now < self._ask_again:
            time.sleep(min(wait_s, self._ask_again - now))
            return False
        self._ask_again = now + _ASKED_EVERY_S
        try:
            self.is_behind = self._has_members()
            if self.is_behind:
                return False
        except Retryable:  # the group's coordinator is not available yet
            return False
        with kafka_errors(f"consumer group {self._group}"):
            self._consumer = new_group_consumer(self._connection, self._group)
            self._consumer.subscribe(
                [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )
        return True

    def _has_members(self) -> bool:
        with kafka_errors(f"consumer group {self._group}"):
            (future,) = self._admin.describe_consumer_groups([self._group], request_timeout=10.0).values()
            return bool(future.result(15.0).members)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)
        self._partitions |= (numbers := {each.partition for each in partitions})
        self.taken += _DECIDING in numbers

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_unassign(partitions)
        self._partitions -= {each.partition for each in partitions}
