"""How late events were, by the minute in which they happened: small values that workers make, and others add up."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from enrich.tally.histogram import Histogram

_MINUTE_MS = 60_000
_MOST_MINUTES = 500
"""Of one call. Of further ones, those with the fewest events, the times are taken as not known: they are the word of
senders, and each minute costs as much as hundreds of events."""

Times = npt.NDArray[np.int64]
NOTHING = Histogram()


def minute_of(event_time_ms: int) -> int:
    """Whole minutes since 1970."""
    return event_time_ms // _MINUTE_MS


@dataclass(frozen=True, slots=True)
class Lag:
    """Of the events of one minute."""

    came: Histogram = NOTHING
    """From event time to arrival at the node."""
    went: Histogram = NOTHING
    """From event time to departure."""
    took: Histogram = NOTHING
    """From arrival to departure, where the node knows both: no clocks of others have a part in it."""

    @classmethod
    def of(cls, event_times_ms: Times, came_ms: Times, went_ms: int) -> "Lag":
        """Of events that all left at one time, whatever their minutes."""
        late, left = Histogram.of(came_ms - event_times_ms), Histogram.of(went_ms - event_times_ms)
        is_one = len(came_ms) > 0 and came_ms.min() == came_ms.max()  # mostly they came together
        took = Histogram.of(went_ms - came_ms[:1]) if is_one else Histogram.of(went_ms - came_ms)
        return cls(late, left, took.times(len(came_ms)) if is_one else took)

    def longest(self, number: int) -> "Lag":
        """Of so many events, those that were latest."""
        return Lag(self.came.longest(number), self.went.longest(number), self.took.longest(number))

    def __add__(self, other: "Lag") -> "Lag":
        return Lag(self.came + other.came, self.went + other.went, self.took + other.took)

    def __sub__(self, earlier: "Lag") -> "Lag":
        """What was seen after `earlier`, which must be a part of it."""
        return Lag(self.came - earlier.came, self.went - earlier.went, self.took - earlier.took)

    def __bool__(self) -> bool:
        return bool(self.came or self.went or self.took)


NO_LAG = Lag()


class Lags:
    """By minute; None for events whose time is not known. Is not changed once it is made; `+` makes another."""

    __slots__ = ("by_minute",)

    def __init__(self, by_minute: Mapping[int | None, Lag] | None = None) -> None:
        self.by_minute: Mapping[int | None, Lag] = by_minute or {}

    @classmethod
    def of(
        cls,
        event_times_ms: npt.ArrayLike,
        came_ms: npt.ArrayLike | None = None,
        went_ms: npt.ArrayLike | None = None,
        is_known: npt.ArrayLike | None = None,
    ) -> "Lags":
        """`event_times_ms`: of each event. `came_ms`, `went_ms`: of each event, or one for all; None: it did not come,
        or not go. `is_known`: of each event, whether its time is; without it all are."""
        times = np.asarray(event_times_ms, np.int64)
        came = None if came_ms is None else np.broadcast_to(np.asarray(came_ms, np.int64), times.shape)
        went = None if went_ms is None else np.broadcast_to(np.asarray(went_ms, np.int64), times.shape)
        known = np.ones(times.shape, np.bool_) if is_known is None else np.asarray(is_known, np.bool_)
        by_minute: dict[int | None, Lag] = {}
        for minute, chosen in _groups(times, known):
            by_minute[minute] = Lag(
                NOTHING if came is None or minute is None else Histogram.of(came[chosen] - times[chosen]),
                NOTHING if went is None or minute is None else Histogram.of(went[chosen] - times[chosen]),
                NOTHING if came is None or went is None else Histogram.of(went[chosen] - came[chosen]),
            )
        return cls(by_minute)

    def of_minute(self, minute: int | None) -> Lag:
        return self.by_minute.get(minute, NO_LAG)

    def __add__(self, other: "Lags") -> "Lags":
        by_minute = {**self.by_minute}
        for minute, lag in other.by_minute.items():
            mine = by_minute.get(minute)
            by_minute[minute] = lag if mine is None else mine + lag
        return Lags(by_minute)

    def __bool__(self) -> bool:
        return bool(self.by_minute)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lags) and self.by_minute == other.by_minute

    def __hash__(self) -> int:
        return hash(frozenset(self.by_minute.items()))


Chosen = slice | npt.NDArray[np.bool_] | npt.NDArray[np.intp]


def _groups(times: Times, known: npt.NDArray[np.bool_]) -> Iterator[tuple[int | None, Chosen]]:
    """The minutes, and which events are of each."""
    if not len(times):
        return
    known = known & _is_usual(times, known)
    if not known.all():
        yield None, ~known
        if not known.any():
            return
        places = np.flatnonzero(known)
    else:
        places = np.arange(len(times))
    minutes = times[places] // _MINUTE_MS
    if minutes.min() == minutes.max():
        yield int(minutes[0]), slice(None) if len(places) == len(times) else places
        return
    order = np.argsort(minutes, kind="stable")
    found, firsts = np.unique(minutes[order], return_index=True)
    for minute, chosen in zip(found.tolist(), np.split(order, firsts[1:]), strict=True):
        yield int(minute), places[chosen]


def _is_usual(times: Times, known: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_] | np.bool_:
    """Which times are of the minutes with the most events."""
    minutes = times // _MINUTE_MS
    found, counts = np.unique(minutes[known], return_counts=True)
    if len(found) <= _MOST_MINUTES:
        return np.True_
    usual = found[np.argsort(-counts, kind="stable")[:_MOST_MINUTES]]
    return np.isin(minutes, usual)
