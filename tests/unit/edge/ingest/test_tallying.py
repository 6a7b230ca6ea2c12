"""What ingest says of the events that it has acknowledged, by hand: places and minutes."""

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, Message

from edge_service.ingest.entry import tallying
from edge_service.ingest.entry.committing import Written
from edge_service.ingest.entry.tallying import Tallying, tallies_of
from enrich.tally import Histogram, Origins, minute_of

MINUTE_MS = 60_000
AT_MS = 1_700_000_040_000  # the beginning of a minute


def acknowledged(noted, times_ms, places, came_ms=AT_MS, error=None):
    """A request with these event times, whose records got these places."""
    done: list[Written] = []
    written = Written(len(times_ms), done.append, with_origins=False)
    reports = noted.reports_of(times_ms, came_ms, written)
    for report, (partition, offset) in zip(reports, places, strict=True):
        report(error, Message(topic="plays", partition=partition, offset=offset))
    assert done == [written]
    noted.answered(times_ms, came_ms, came_ms + 7)


def said(noted):
    return {tally.minute: tally for tally in tallies_of("plays", noted.taken())}


def origins(*ranges):
    return Origins.of_ranges([("plays", *one) for one in ranges])


@pytest.fixture
def noted():
    return Tallying("plays", None)  # type: ignore[arg-type] # nothing is reported here


def test_places_that_follow_each_other_are_ranges_of_their_partition(noted):
    acknowledged(noted, [AT_MS] * 5, [(0, 1), (0, 2), (1, 3), (0, 3), (0, 5)])
    acknowledged(noted, [AT_MS], [(0, 6)])
    tally = said(noted)[minute_of(AT_MS)]
    assert tally.went == tally.came == origins((0, 1, 3), (1, 3, 3), (0, 5, 6))
    assert said(noted) == {}


def test_an_event_belongs_to_the_minute_in_which_it_happened_or_else_came(noted):
    late, none = AT_MS - 5 * MINUTE_MS, None
    acknowledged(noted, [AT_MS, late, none, late], [(0, 0), (0, 1), (0, 2), (0, 3)])
    acknowledged(noted, [none], [(0, 4)])
    acknowledged(noted, [late, late], [(0, 5), (0, 6)])
    acknowledged(noted, [late, none], [(0, 7), (0, 8)])
    found = said(noted)
    assert found[minute_of(AT_MS)].went == origins((0, 0, 0), (0, 2, 2), (0, 4, 4), (0, 8, 8))
    assert found[minute_of(late)].went == origins((0, 1, 1), (0, 3, 3), (0, 5, 7))
    assert found[minute_of(late)].lag.came == Histogram.of([5 * MINUTE_MS] * 5)
    assert found[minute_of(late)].lag.went == Histogram.of([5 * MINUTE_MS + 7] * 5)
    assert found[minute_of(AT_MS)].lag.took == Histogram.of([7] * 4)


@pytest.mark.parametrize("times_ms", [[None], [None, None], [AT_MS - MINUTE_MS, None]])
def test_an_event_without_a_time_belongs_to_the_minute_of_its_record(noted, times_ms):
    """It came just before the minute began. An audit, and who reads the topic, know nothing else of it."""
    written = Written(len(times_ms), lambda _: None, with_origins=False)
    for offset, report in enumerate(noted.reports_of(times_ms, AT_MS - 1, written)):
        report(None, Message(topic="plays", partition=0, offset=offset, timestamp=(TIMESTAMP_CREATE_TIME, AT_MS + 1)))
    without = [offset for offset, time_ms in enumerate(times_ms) if time_ms is None]
    assert said(noted)[minute_of(AT_MS)].went == origins((0, without[0], without[-1]))


def test_what_was_not_written_has_no_place(noted):
    acknowledged(noted, [AT_MS], [(0, 9)], error=KafkaError(KafkaError._MSG_TIMED_OUT))
    assert not said(noted)[minute_of(AT_MS)].went


def test_an_acknowledgement_after_the_report_is_in_the_next(noted):
    written = Written(2, lambda _: None, with_origins=False)
    first, second = noted.reports_of([AT_MS, AT_MS], AT_MS, written)
    first(None, Message(topic="plays", partition=0, offset=0))
    assert said(noted)[minute_of(AT_MS)].went == origins((0, 0, 0))
    second(None, Message(topic="plays", partition=0, offset=1))
    assert said(noted)[minute_of(AT_MS)].went == origins((0, 1, 1))


def test_senders_that_name_any_time_do_not_fill_the_memory(noted, monkeypatch):
    monkeypatch.setattr(tallying, "_MOST_MINUTES", 10)
    times = [AT_MS - number * MINUTE_MS for number in range(1, 50)]
    acknowledged(noted, times, [(0, number) for number in range(49)])
    found = {minute: tally.went for minute, tally in said(noted).items() if tally.went}
    assert len(found) == 11
    assert len(found[minute_of(AT_MS)]) == 39
