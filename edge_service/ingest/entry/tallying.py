"""What an entry says of the events that it has acknowledged: their places, by the minute in which they happened.

This is where minutes are assigned. An event without an event time happened when its record says: whoever reads it knows
no other time of it. On the event loop as little as possible is done for each event: a place that follows the last one
makes a range longer, and times are kept as they came, request by request. What follows from them is worked out by
another thread, once a second.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, Message

from edge_service.ingest.entry.committing import Report, Written
from enrich.tally import Lags, Origins, Tally, minute_of
from enrich.tally.origins import Range
from enrich.tally.writing import Reporter

_MOST_MINUTES = 2_000
"""Of one second. Events of further minutes count for the minute in which they came: times are the senders' word."""
_UNKNOWN = -1


class _Places:
    """Of one minute."""

    __slots__ = ("following", "partition", "ranges", "start")

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int, int]] = []
        self.partition = self.start = self.following = _UNKNOWN

    def begin(self, partition: int, offset: int) -> None:
        """Another range."""
        self.close()
        self.partition, self.start, self.following = partition, offset, offset + 1

    def close(self) -> None:
        if self.partition != _UNKNOWN:
            self.ranges.append((self.partition, self.start, self.following - 1))
            self.partition = self.following = _UNKNOWN


@dataclass(frozen=True, slots=True)
class Told:
    """What was noted since the last time."""

    places: dict[int, _Places] = field(default_factory=dict)
    """By minute."""
    times_ms: list[int | None] = field(default_factory=list)
    """Event times, request by request."""
    counts: list[int] = field(default_factory=list)
    """Of each request: how many events it had, when it came, and when it was acknowledged."""
    came_ms: list[int] = field(default_factory=list)
    went_ms: list[int] = field(default_factory=list)


class Tallying:
    """For one entry. `reports_of`, `answered` and `taken` on its loop, `report` on another thread."""

    def __init__(self, topic: str, reporter: Reporter) -> None:
        self._topic = topic
        self._reporter = reporter
        self._told = Told()

    def reports_of(self, times_ms: Sequence[int | None], came_ms: int, written: Written) -> Sequence[Report]:
        """Of each event the delivery report that notes its place, and tells `written`."""
        arrival = minute_of(came_ms)
        if len(times_ms) == 1:
            (one,) = times_ms
            return [self._report_of(None if one is None else minute_of(one), arrival, written)]
        known = [time_ms for time_ms in times_ms if time_ms is not None]
        first, last = (minute_of(min(known)), minute_of(max(known))) if known else (None, None)
        if first == last and len(known) in (0, len(times_ms)):
            return [self._report_of(first, arrival, written)] * len(times_ms)
        minutes = [None if time_ms is None else minute_of(time_ms) for time_ms in times_ms]
        by_minute = {minute: self._report_of(minute, arrival, written) for minute in set(minutes)}
        return [by_minute[minute] for minute in minutes]

    def _report_of(self, minute: int | None, arrival: int, written: Written) -> Report:
        """`minute`: None if only the record knows it."""
        delivered = written.delivered

        def reported(error: KafkaError | None, message: Message) -> None:
            if error is None:
                happened = _minute_of(message, arrival) if minute is None else minute
                places = self._told.places.get(happened) or self._places(happened, arrival)
                if message.offset() == places.following and message.partition() == places.partition:
                    places.following += 1
                else:
                    places.begin(message.partition() or 0, message.offset() or 0)
            delivered(error, message)

        return reported

    def _places(self, minute: int, arrival: int) -> _Places:
        known = self._told.places
        if len(known) >= _MOST_MINUTES:
            minute = arrival
        return known.setdefault(minute, _Places())

    def answered(self, times_ms: Sequence[int | None], came_ms: int, went_ms: int) -> None:
        told = self._told
        told.times_ms.extend(times_ms)
        told.counts.append(len(times_ms))
        told.came_ms.append(came_ms)
        told.went_ms.append(went_ms)

    def taken(self) -> Told:
        told, self._told = self._told, Told()
        return told

    def report(self, told: Told) -> None:
        self._reporter.report(tallies_of(self._topic, told))


def _minute_of(message: Message, arrival: int) -> int:
    """By the record's timestamp, which is the brokers' if the topic wants that."""
    kind, time_ms = message.timestamp()
    return arrival if kind == TIMESTAMP_NOT_AVAILABLE else minute_of(time_ms)


def tallies_of(topic: str, told: Told) -> Sequence[Tally]:
    lags = _lags(told)
    tallies = []
    for minute, places in told.places.items():
        places.close()
        ranges: list[Range] = [(topic, *one) for one in places.ranges]
        origins = Origins.of_ranges(ranges)
        tallies.append(Tally(minute=minute, came=origins, went=origins, lag=lags.of_minute(minute)))
    without_places = [(minute, lag) for minute, lag in lags.by_minute.items() if minute not in told.places]
    return [*tallies, *(Tally(minute=minute, lag=lag) for minute, lag in without_places)]


def _lags(told: Told) -> Lags:
    if not told.counts:
        return Lags()
    came = np.repeat(np.array(told.came_ms, np.int64), told.counts)
    went = np.repeat(np.array(told.went_ms, np.int64), told.counts)
    times: list[int | None] = told.times_ms
    if None in times:
        times = [arrival if time_ms is None else time_ms for time_ms, arrival in zip(times, came.tolist(), strict=True)]
    return Lags.of(np.array(times, np.int64), came, went)
