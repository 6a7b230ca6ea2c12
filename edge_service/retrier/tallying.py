"""What the retrier says of the events that it forwards: which, and how late they were.

Which events, before their offsets are committed: whoever comes next does not read them again. How late, after that: a
transaction that fails is tried again, and lags are sums.
"""

import time
from collections.abc import Sequence

from confluent_kafka import Message, TopicPartition

from edge_service.retrier.forwarding import Sorted
from enrich.kafka.identity import identity_of
from enrich.kafka.records import headers_of
from enrich.tally import Lags, Tally
from enrich.tally.messages import origins_of
from enrich.tally.origins import Read
from enrich.tally.writing import Reporter


class Tallying:
    """For one route's thread. A pipeline without tallies has no reporter."""

    def __init__(self, reporter: Reporter | None) -> None:
        self._reporter = reporter

    def begins(self, batch: Sorted, messages: Sequence[Message], done: Sequence[TopicPartition]) -> None:
        """These are about to be forwarded. `done`: the offsets after them."""
        if self._reporter is None:
            return
        dead = origins_of(batch.dead)
        came = origins_of(messages)
        self._reporter.report([Tally(came=came, went=came - dead, dead=dead)], _reads(messages, done))

    def is_committed_next(self) -> None:
        if self._reporter is not None:
            self._reporter.is_said()

    def close(self) -> None:
        """Waits a moment for what is not acknowledged."""
        self.is_committed_next()

    def ended(self, messages: Sequence[Message]) -> None:
        """These are forwarded."""
        if self._reporter is None:
            return
        times = [identity_of(headers_of(message))[1] for message in messages]
        came = [message.timestamp()[1] for message in messages]
        known = [time_ms is not None for time_ms in times]
        lags = Lags.of([time_ms or 0 for time_ms in times], came, time.time_ns() // 10**6, known)
        self._reporter.report([Tally(minute=minute, lag=lag) for minute, lag in lags.by_minute.items()])


def _reads(messages: Sequence[Message], done: Sequence[TopicPartition]) -> Sequence[Read]:
    firsts: dict[tuple[str, int], int] = {}
    for message in messages:
        firsts.setdefault((message.topic() or "", message.partition() or 0), message.offset() or 0)
    return [
        Read(one.topic, one.partition, firsts[one.topic, one.partition], one.offset)
        for one in done
        if (one.topic, one.partition) in firsts
    ]
