"""The events of a key go one after the other, also through retry topics."""

import pytest
from confluent_kafka import Message

from edge_service.expel.lane.events import Event, Lease
from edge_service.expel.lane.order import NOT_KNOWN, KeyOrder, Verdict, Waiting
from enrich.kafka.retries import retry_headers


def first_read(offset: int, key: bytes | None = b"k") -> Event:
    message = Message(topic="events", partition=0, offset=offset, key=key, value=b"1", timestamp=(1, 1))
    return Event(message, Lease(("events", 0)), 0.0)


def come_back(offset: int, at: int = 0) -> Event:
    """`at`: its place in the topic from which it comes back."""
    headers: list[tuple[str, str | bytes | None]] = [*retry_headers(("events", 0, offset), 1, 1)]
    message = Message(topic="out", partition=0, offset=at, key=b"k", value=b"1", timestamp=(1, 1), headers=headers)
    return Event(message, Lease(("out", 0), "events"), 0.0)


def test_an_event_goes_with_those_before_it_or_once_they_are_over():
    order = KeyOrder()
    events = [first_read(offset) for offset in range(4)]
    order.begin_batch()
    assert [order.judge(event) for event in events[:2]] == [Verdict.goes, Verdict.goes]
    order.begin_batch()
    assert [order.judge(event) for event in events[2:]] == [Verdict.behind, Verdict.behind]
    assert order.judge(first_read(9, key=None)) is Verdict.goes
    assert order.finished(events[:2]) == events[2:]
    assert order.judge(events[2]) is Verdict.goes


def test_what_comes_after_an_event_that_waits_for_its_retry_waits_too():
    order = KeyOrder()
    order.moves(first_read(0), 1)
    second = first_read(1)
    assert order.judge(second) is Verdict.diverted
    assert order.pause_of(second) == 1
    order.moves(second, 1)
    order.begin_batch()
    assert order.judge(come_back(1)) is Verdict.diverted
    assert order.judge(come_back(0)) is Verdict.goes
    order.settled(come_back(0))
    order.finished([come_back(0)])
    order.begin_batch()
    assert order.judge(come_back(1)) is Verdict.goes
    order.settled(come_back(1))
    order.finished([come_back(1)])
    assert order.judge(first_read(2)) is Verdict.goes


def test_what_is_read_again_after_a_kill_and_waits_for_its_retry_already_is_not_sent():
    order = KeyOrder()
    order.knows(0, Waiting([(b"k", 3, 0, 0), (b"k", 4, 0, 1)], {3: 7}))
    assert order.judge(first_read(3)) is Verdict.known
    assert order.judge(first_read(4)) is Verdict.known
    assert order.judge(first_read(5)) is Verdict.diverted
    order.begin_batch()
    assert order.judge(come_back(3, at=6)) is Verdict.known  # a copy that was read before the kill
    assert order.judge(come_back(3, at=7)) is Verdict.goes


def test_an_event_of_a_topic_that_was_made_again_is_no_copy_of_one_that_waits_since_before():
    def old(offset: int, topic_id: str) -> Event:
        headers: list[tuple[str, str | bytes | None]] = [*retry_headers(("events", 0, offset), 1, 1, topic_id)]
        message = Message(topic="out", partition=0, offset=9, key=b"k", value=b"1", timestamp=(1, 1), headers=headers)
        return Event(message, Lease(("out", 0), "events", "now"), 0.0)

    gone, present = old(3, "gone"), old(3, "now")
    assert gone.place == present.place
    order = KeyOrder()
    order.knows(0, Waiting([(b"k", gone.turn, 0, 0)], {gone.turn: 20}))
    assert order.judge(first_read(3)) is Verdict.diverted
    assert order.judge(present) is Verdict.diverted
    assert order.judge(gone) is Verdict.known
    assert len({old(3, one).turn for one in ("gone", "before", "", "now")}) == 3


def test_an_event_before_those_that_wait_does_not_wait_for_them():
    order = KeyOrder()
    order.knows(0, Waiting([(b"k", 5, 0, 0)]))
    assert order.judge(first_read(2)) is Verdict.goes


@pytest.mark.parametrize("is_known", [True, False], ids=["since before", "now"])
def test_what_does_not_come_back_though_one_behind_it_does_keeps_nobody_waiting(is_known):
    """The retrier has made a dead letter of it, or the brokers have removed it."""
    order = KeyOrder()
    if is_known:
        order.knows(0, Waiting([(b"k", 0, 1, 4)]))
    else:
        order.moves(first_read(0), 1)
        order.stands(first_read(0), 1, 4)
    second = first_read(1)
    assert order.judge(second) is Verdict.diverted
    order.moves(second, order.pause_of(second))
    order.stands(second, 1, 6)
    order.begin_batch()
    assert order.judge(come_back(1)) is Verdict.goes


@pytest.mark.parametrize(
    ("pause", "at"), [(1, 7), (1, NOT_KNOWN), (0, 4)], ids=["behind it", "on its way", "elsewhere"]
)
def test_what_may_still_come_back_is_waited_for(pause, at):
    order = KeyOrder()
    order.knows(0, Waiting([(b"k", 0, pause, at), (b"k", 1, 1, 6)]))
    assert order.judge(come_back(1)) is Verdict.diverted


def test_nothing_is_kept_of_a_partition_that_is_not_ours_any_more():
    order = KeyOrder()
    order.knows(0, Waiting([(b"k", 1, 0, 0)], {1: 9}))
    order.forget(0)
    assert order.judge(come_back(1, at=3)) is Verdict.goes


def test_a_batch_of_a_partition_that_was_lost_frees_nobody_once_the_partition_is_back():
    order = KeyOrder()
    order.begin_batch()
    old = first_read(5)
    assert order.judge(old) is Verdict.goes
    old.lease.is_over = True
    order.forget(0)
    order.begin_batch()
    again = first_read(5)
    assert order.judge(again) is Verdict.goes
    order.begin_batch()
    behind = [first_read(6), first_read(7)]
    assert order.judge(behind[0]) is Verdict.behind
    assert order.finished([old]) == []
    assert order.judge(behind[1]) is Verdict.behind
    assert order.finished([again]) == behind


def test_an_event_of_a_topic_that_the_route_had_before_holds_up_nobody():
    def moved(at: int) -> Event:
        headers: list[tuple[str, str | bytes | None]] = [*retry_headers(("before", 0, 5), 1, 1, "gone")]
        message = Message(topic="out", partition=0, offset=at, key=b"k", value=b"1", timestamp=(1, 1), headers=headers)
        return Event(message, Lease(("out", 0), "events", "now"), 0.0)

    order = KeyOrder()
    order.begin_batch()
    assert order.judge(moved(7)) is Verdict.goes
    order.moves(moved(7), 0)  # it was not taken
    order.finished([moved(7)])
    order.begin_batch()
    assert order.judge(moved(9)) is Verdict.goes
    order.settled(moved(9))
    order.finished([moved(9)])
    order.begin_batch()
    assert order.judge(first_read(1_000)) is Verdict.goes
