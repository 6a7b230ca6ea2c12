"""What expel says of events, by hand: places, outcomes, and what is told of an event that comes back."""

from confluent_kafka import Message

from edge_service.expel.lane.events import Became, Event, Lease
from edge_service.expel.tallying import tallies_of
from enrich.tally import Histogram, Origins, minute_of

FRESH, BACK = Lease(("plays.acme", 1)), Lease(("p.acme.retry_out", 0), "plays.acme")
LOOP_S, MINUTE_MS = 1_000_000.0, 60_000
"""When the loop's clock began."""


def event(
    offset: int, lease: Lease = FRESH, became: Became = Became.went, came_s: float = 0.0, **headers: str
) -> Event:
    named: list[tuple[str, str | bytes | None]] = [(f"enrich.{name}", text.encode()) for name, text in headers.items()]
    topic, partition = lease.partition
    made = Event(Message(topic=topic, partition=partition, offset=offset, value=b"x", headers=named), lease, came_s)
    made.became = became
    return made


def test_each_event_is_in_the_set_of_its_outcome_by_its_origin() -> None:
    settled = [
        ([event(0), event(1, origin="raw/2/7")], 1.0),
        ([event(2, became=Became.waits)], 1.0),
        ([event(3, became=Became.dead, origin="raw/3/8")], 1.0),
    ]
    (tally,) = tallies_of(settled, LOOP_S)
    assert tally.went == Origins.of_ranges([("plays.acme", 1, 0, 0), ("raw", 2, 7, 7)])
    assert tally.waiting == Origins.of_ranges([("plays.acme", 1, 2, 2)])
    assert tally.dead == Origins.of_ranges([("raw", 3, 8, 8)])
    assert tally.came == tally.went | tally.waiting | tally.dead
    assert tally.minute is None
    assert (tally.lag.came, tally.lag.went) == (Histogram(), Histogram())
    assert tally.lag.took == Histogram.of([1000, 1000])


def test_lags_are_of_the_minute_in_which_the_event_happened() -> None:
    base_ms = round(LOOP_S * 1000)
    at = [base_ms, base_ms + MINUTE_MS]
    settled = [([event(number, came_s=70.0, event_time=str(time)) for number, time in enumerate(at)], 70.5)]
    _, *lags = tallies_of(settled, LOOP_S)
    assert {tally.minute for tally in lags} == {minute_of(time) for time in at}
    for tally in lags:
        late = 70_000 if tally.minute == minute_of(at[0]) else 10_000
        assert tally.lag.came == Histogram.of([late])
        assert tally.lag.went == Histogram.of([late + 500])
        assert tally.lag.took == Histogram.of([500])
        assert not tally.came


def test_the_arrival_of_an_event_that_waited_is_told_when_it_came_first() -> None:
    time = str(round(LOOP_S * 1000))
    first = tallies_of([([event(0, became=Became.waits, came_s=1.0, event_time=time)], 2.0)], LOOP_S)
    again = tallies_of([([event(9, BACK, came_s=30.0, event_time=time)], 31.0)], LOOP_S)
    assert (first[1].lag.came.count, first[1].lag.went.count) == (1, 0)
    assert (again[1].lag.came.count, again[1].lag.went) == (0, Histogram.of([31_000]))
    dead = tallies_of([([event(9, BACK, Became.dead, event_time=time)], 31.0)], LOOP_S)
    assert [bool(tally.lag) for tally in dead] == [False]


def test_nothing_is_said_of_nothing() -> None:
    assert tallies_of([], LOOP_S) == []
