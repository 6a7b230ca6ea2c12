"""What a write-back route says of the records that it has written, before their offsets are committed."""

import time
from collections.abc import Collection, Iterable, Sequence

from confluent_kafka import Message

from enrich.delivery.plan import Advance
from enrich.kafka.identity import identity_of
from enrich.kafka.records import headers_of, own_place
from enrich.tally import Lags, Origins, Tally
from enrich.tally.messages import origins_of
from enrich.tally.origins import Read
from enrich.tally.writing import Reporter
from sync_service.writeback.onward import origin_of


class Tallying:
    """For one route's thread. A pipeline without tallies has no reporter."""

    def __init__(self, reporter: Reporter | None, *, from_retry_topic: bool) -> None:
        self._reporter = reporter
        self._from_retry_topic = from_retry_topic
        self._tallies: list[Tally] = []
        """Of what may be committed next."""

    def taken(self, messages: Sequence[Message], dead: Sequence[Message], waiting: Sequence[Message]) -> None:
        """All others are in the store, or a newer version of them is."""
        if self._reporter is None or not messages:
            return
        now_ms = time.time_ns() // 10**6
        came, dead_ones, waiting_ones = (self._origins(some) for some in (messages, dead, waiting))
        went = came - dead_ones - waiting_ones
        self._tallies.append(Tally(came=came, went=went, dead=dead_ones, waiting=waiting_ones))
        self._tallies += _lags(messages, {id(message) for message in (*dead, *waiting)}, now_ms)

    def report(self, advances: Sequence[Advance]) -> None:
        if self._reporter is None:
            return
        reads = [Read(each.topic, each.number, each.first, each.following) for each in advances]
        if self._tallies or reads:
            self._reporter.report(self._tallies, reads)
            self._tallies = []
            self._reporter.is_said()

    def _origins(self, messages: Iterable[Message]) -> Origins:
        return origins_of(messages, _first_place if self._from_retry_topic else own_place)


def _first_place(message: Message) -> tuple[str, int, int]:
    """Of a record of a retry topic."""
    first = origin_of(message, from_retry_topic=True)
    return first.topic, first.partition, first.offset


def _lags(messages: Iterable[Message], stayed: Collection[int], now_ms: int) -> Iterable[Tally]:
    """Of what was written."""
    times = [
        time_ms
        for message in messages
        if id(message) not in stayed and (headers := headers_of(message))
        if (time_ms := identity_of(headers)[1]) is not None
    ]
    return [Tally(minute=minute, lag=lag) for minute, lag in Lags.of(times, None, now_ms).by_minute.items()]
